"""Fingerprints: equal for values with the same content, in this process and in the next one.

The content of an array is its numbers, that of a function its code and everything that the code
refers to, that of an object its class and attributes. Functions and classes of installed packages
are told apart by name and version.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from math import isfinite, prod
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from . import arrays, imports
from .types import ArrayLike

_PIECE_BYTES = 16 * 2**20
_MOST_TEXT = 2000  # characters of a fingerprint that is no digest, to show what has changed
_NAME = "(name)"  # the only entry of objects that are pickled by name
_OF_C = (GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_BY_NAME = (Path, range, slice, complex, type(...), np.dtype)


def of_settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the fingerprints of settings, for JSON; values without one raise `ValueError`."""
    return {name: _short(_Teller(_refuse)(name, value)) for name, value in settings.items()}


def of_attributes(value: object) -> dict[str, Any]:
    """Return the fingerprints of the attributes of an object, for JSON.

    Attributes with a leading underscore are left out. The fingerprint of a value that cannot be
    taken apart, such as a lock, is the name of its class.
    """
    made_of = _made_of(value, private=False)
    return {name: _short(_Teller(None)(name, one)) for name, one in made_of.items()}


def of_code(value: object) -> Any:
    """Return the fingerprint of a class or a function, for JSON."""
    return _short(_Teller(None)("code", value))


def of_array(array: ArrayLike) -> str:
    """Return dtype, shape and a digest of an array.

    Arrays in memory are read by all processors; others are read a part at a time.
    """
    shape, dtype = tuple(array.shape), str(array.dtype)
    row = prod(shape[1:]) * getattr(array.dtype, "itemsize", 8)
    step = max(1, _PIECE_BYTES // max(row, 1))

    def digest(start: int) -> bytes:
        piece = np.ascontiguousarray(arrays.host(array[start : start + step] if shape else array))
        return hashlib.sha256(piece.reshape(-1).view(np.uint8).data).digest()

    starts = range(0, shape[0] if shape else 1, step)
    if len(starts) > 1 and isinstance(array, np.ndarray):
        from . import threads

        with ThreadPoolExecutor(threads.n_allowed()) as pool:
            digests = list(pool.map(digest, starts))
    else:
        digests = [digest(start) for start in starts]
    return f"{dtype} {shape} {hashlib.sha256(b''.join(digests)).hexdigest()[:32]}"


def _refuse(name: str, value: object) -> Any:
    raise ValueError(
        f"results that depend on `{name}` cannot be kept: a change of this "
        f"{type(value).__qualname__} would not be noticed later. Use a function, arrays or a "
        f"dataclass of these, or remove `resume`."
    )


def _short(told: Any) -> Any:
    """Return a fingerprint with its long parts replaced by digests."""
    text = json.dumps(told)
    if len(text) <= _MOST_TEXT:
        return told
    if isinstance(told, dict):
        return {name: _short(part) for name, part in told.items()}
    return hashlib.sha256(text.encode()).hexdigest()


class _Teller:
    """Takes values apart, each object once.

    Arguments:
        refuse: Function of a name and a value that cannot be taken apart; by default the name of
            its class is used, and attributes with a leading underscore are left out.
    """

    def __init__(self, refuse: Callable[[str, object], Any] | None) -> None:
        self.refuse = refuse
        self.seen: dict[int, tuple[int, object]] = {}

    def __call__(self, name: str, value: Any) -> Any:
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if isfinite(value) else repr(value)
        if isinstance(value, _BY_NAME):
            return repr(value)
        if isinstance(value, bytes | bytearray):
            return hashlib.sha256(value).hexdigest()
        if _is_array(value):
            return of_array(value)
        if id(value) in self.seen:
            return f"as before, {self.seen[id(value)][0]}"
        if not isinstance(value, tuple | frozenset):  # constants, which Python may share or not
            self.seen[id(value)] = len(self.seen), value  # kept, so that its id is not used again
        try:
            return self._content(name, value)
        except RecursionError:
            return self._unseen(name, value)

    def _content(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {_word(key): self(f"{name}.{_word(key)}", one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self(f"{name}[{k}]", one) for k, one in enumerate(value)]
        if isinstance(value, set | frozenset):
            return sorted(json.dumps(_Teller(self.refuse)(name, one)) for one in value)
        if isinstance(value, np.ndarray):  # of objects
            return [value.shape, self(name, value.ravel().tolist())]
        if isinstance(value, ModuleType):
            return imports.described(value)
        if isinstance(value, MethodType):
            return [self(name, value.__func__), self(name, value.__self__)]
        if isinstance(value, partial):
            return [self(name, part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, FunctionType):
            return self._function(name, value)
        if isinstance(value, type):
            return self._class(name, value)
        return self._object(name, value)

    def _function(self, name: str, value: FunctionType) -> Any:
        """Return code, defaults, closure and globals of a function."""
        label = f"{value.__module__}.{value.__qualname__}"
        if version := imports.version(value.__module__):
            return f"{label} {version}"
        used = sorted(_names(value.__code__) & set(value.__globals__))
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        parts: dict[str, Any] = {
            "defaults": value.__defaults__,
            "keywords": value.__kwdefaults__,
            "closure": {key: cell.cell_contents for key, cell in cells if _is_filled(cell)},
            "globals": {key: value.__globals__[key] for key in used},
        }
        told = {key: self(name, part) for key, part in parts.items() if part}
        return {"function": label, "code": self._code(name, value.__code__), **told}

    def _code(self, name: str, code: CodeType) -> str:
        """Return a digest of a code object, which depends on the version of Python."""
        constants = [
            self._code(name, constant) if isinstance(constant, CodeType) else self(name, constant)
            for constant in code.co_consts
        ]
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        text = json.dumps([code.co_code.hex(), code.co_flags, names, constants])
        return f"{imports.PYTHON} {hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def _class(self, name: str, value: type) -> Any:
        """Return functions, other attributes and bases of a class."""
        label = f"{value.__module__}.{value.__qualname__}"
        if version := imports.version(value.__module__):
            return f"{label} {version}"
        members = {key: _unwrapped(one) for key, one in vars(value).items()}
        told = {
            key: self(f"{name}.{key}", one)
            for key, one in members.items()
            if not isinstance(one, _OF_C)
            and (isinstance(one, FunctionType) or not key.startswith(("__", "_abc_")))
        }
        bases = [self(name, base) for base in value.__bases__ if base is not object]
        return {"(class)": label, "(bases)": bases, **told}

    def _object(self, name: str, value: Any) -> Any:
        """Return class and attributes of an object."""
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if callable(value) and inner is not None:  # a function that was compiled or cached
            return self(name, inner)
        if isinstance(value, BuiltinFunctionType | np.ufunc):
            owner = getattr(value, "__self__", None)
            bound = [] if owner is None or isinstance(owner, ModuleType) else [self(name, owner)]
            return [f"{getattr(value, '__module__', None)}.{value.__name__}", *bound]
        try:
            made_of = _made_of(value, private=self.refuse is not None)
        except Exception:  # objects that cannot be pickled raise errors of any type
            return self._unseen(name, value)
        told = {key: self(f"{name}.{key}", one) for key, one in made_of.items()}
        if _NAME in told:
            return f"{told[_NAME]} {imports.version(value.__module__)}"
        return {"(class)": self(name, type(value)), **told}

    def _unseen(self, name: str, value: object) -> Any:
        kind = type(value)
        label = f"{kind.__module__}.{kind.__qualname__}"
        return label if self.refuse is None else self.refuse(name, value)


def _made_of(value: Any, *, private: bool) -> dict[str, Any]:
    """Return the attributes of an object, without cached properties."""
    if isinstance(value, type | ModuleType):
        return {}
    if hasattr(value, "state_dict") and not private:  # a network of torch, all of it private
        return dict(value.state_dict())
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    reduced = value.__reduce_ex__(4)  # as in pickle and copy
    if isinstance(reduced, str):
        return {_NAME: f"{getattr(value, '__module__', '')}.{reduced}"}
    made, given, state, listed, keyed = (*reduced, None, None, None)[:5]
    usual = made.__name__ == "__newobj__" and not given[1:]
    found: dict[str, Any] = {} if usual else {"(made)": made, "(given)": given}
    found |= {} if listed is None else {"(items)": list(listed)}
    found |= {} if keyed is None else {"(entries)": list(keyed)}
    slotted = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if any(not isinstance(part, dict | None) for part in slotted):
        return found | {"(state)": state}
    return found | {
        name: one
        for part in slotted
        for name, one in (part or {}).items()
        if not isinstance(getattr(type(value), str(name), None), cached_property)
        and (private or not str(name).startswith("_"))
    }


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numbers, in memory, on a device or stored."""
    if isinstance(value, type) or not (hasattr(value, "dtype") and hasattr(value, "shape")):
        return False
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    if arrays.package(value) in ("torch", "jax", "cupy"):
        return True
    return hasattr(value, "__array__") and arrays.package(value) != "pandas"


def _names(code: CodeType) -> set[str]:
    """Return all names in a code object and in those that it contains."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _unwrapped(member: Any) -> Any:
    """Return the function of a static method, a class method or a property."""
    for name in ("__func__", "fget", "func"):
        if isinstance(inner := getattr(member, name, None), FunctionType):
            return inner
    return member


def _word(key: object) -> str:
    return key if isinstance(key, str) else repr(key)
