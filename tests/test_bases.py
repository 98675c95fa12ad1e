"""Bases of fields: waves, regions and matrices, and their bands."""

import numpy as np
import pytest

from tarpon import bases
from tarpon.bases import Fourier, Matrix, Regions, Wavelet


@pytest.mark.parametrize("shape", [(16,), (15,), (8, 8), (7, 6), (5, 8), (4, 6, 5)])
def test_squares_of_waves_add_up_to_those_of_cells(shape):
    points = np.random.default_rng(0).normal(size=(3, int(np.prod(shape))))
    coefficients = Fourier().coefficients(points, shape)
    assert np.allclose((coefficients**2).sum(axis=1), (points**2).sum(axis=1))
    bands = Fourier().bands(shape)
    assert bands.labels.shape == coefficients.shape[1:]
    assert bands.labels.max() == len(bands.names) - 1


@pytest.mark.parametrize(("wavelength", "name"), [(16, "16 and more"), (8, "8–12"), (4, "4–6")])
def test_a_wave_is_in_the_band_of_its_wavelength(wavelength, name):
    wave = np.cos(2 * np.pi * np.arange(16) / wavelength)
    field = np.broadcast_to(wave, (16, 16))
    bands = Fourier().bands((16, 16))
    power = np.bincount(bands.labels, Fourier().coefficients(field.ravel(), (16, 16)) ** 2)
    assert bands.names[int(np.argmax(power))] == name
    assert power.max() > 0.999 * power.sum()


def test_contrasts_tell_the_axis_along_which_a_field_varies():
    wave = np.broadcast_to(np.cos(2 * np.pi * np.arange(12) / 6)[:, None], (12, 12))
    bands = Fourier().bands((12, 12))
    for field, sign in ((wave, 1), (wave.T, -1)):
        power = Fourier().coefficients(field.ravel(), (12, 12)) ** 2
        assert power @ bands.contrasts[:, 0] / power.sum() == pytest.approx(sign)
    assert bands.directions[0] == ("axis 0", "axis 1")


@pytest.mark.parametrize("shape", [(12, 12), (9, 15)])
def test_contrasts_tell_the_diagonal_along_which_a_field_varies(shape):
    rows, columns = np.indices(shape)
    bands = Fourier().bands(shape)
    for sign in (1, -1):
        # As many waves along each axis, in steps that are the same along both.
        wave = np.cos(2 * np.pi * (rows / 3 + sign * columns / 3))
        power = Fourier().coefficients(wave.ravel(), shape) ** 2
        assert power @ bands.contrasts / power.sum() == pytest.approx([0, sign], abs=1e-12)
    assert bands.directions[1] == ("the diagonal axis 0 = axis 1", "the diagonal axis 0 = −axis 1")


def test_waves_of_two_cells_have_no_diagonal():
    bands, checkers = Fourier().bands((8, 8)), (-1.0) ** np.indices((8, 8)).sum(axis=0)
    power = Fourier().coefficients(checkers.ravel(), (8, 8)) ** 2
    assert power @ bands.contrasts == pytest.approx([0, 0], abs=1e-9)


@pytest.mark.parametrize("name", ["haar", "db2", "sym4"])
@pytest.mark.parametrize("shape", [(16,), (8, 16), (16, 8, 8), (7, 6), (5,), (6, 9, 4)])
def test_squares_of_wavelets_add_up_to_those_of_cells(name, shape):
    points = np.random.default_rng(0).normal(size=(3, int(np.prod(shape))))
    basis, bands = Wavelet(name), Wavelet(name).bands(shape)
    coefficients = basis.coefficients(points, shape)
    assert bands.labels.shape == coefficients.shape[1:]
    assert bands.labels.max() == len(bands.names) - 1
    fits = all(n % 2 ** (len(bands.names) - 1) == 0 for n in shape)
    squares, cells = (coefficients**2).sum(axis=1), (points**2).sum(axis=1)
    assert np.allclose(squares, cells) == fits
    assert (squares >= 0.9 * cells).all()  # odd axes are extended, so nothing is lost


@pytest.mark.parametrize(("wavelength", "name"), [(2, "2–4"), (6, "4–8"), (12, "8–16")])
def test_structure_is_in_the_level_of_its_scale(wavelength, name):
    wave = np.cos(2 * np.pi * np.arange(48) / wavelength)
    bands = Wavelet("sym8").bands((48,))
    power = np.bincount(bands.labels, Wavelet("sym8").coefficients(wave, (48,)) ** 2)
    assert bands.names[int(np.argmax(power))] == name
    assert power.max() > 0.7 * power.sum()


def test_details_of_wavelets_tell_directions():
    wave = (-1.0) ** np.indices((8, 8))
    bands = Wavelet("haar").bands((8, 8))
    assert bands.directions == (("axis 0", "axis 1"), ("the axes", "diagonals"))
    expected = {0: [1, 1], 1: [-1, 1], 2: [0, -1]}
    for k, field in enumerate((wave[0], wave[1], wave[0] * wave[1])):
        power = Wavelet("haar").coefficients(field.ravel(), (8, 8)) ** 2
        assert power @ bands.contrasts / power.sum() == pytest.approx(expected[k])
    assert Wavelet("haar").bands((16,)).contrasts is None
    assert len(Wavelet("haar").bands((8, 8, 8)).directions) == 4


def test_single_precision_stays_single():
    assert Fourier().coefficients(np.ones((2, 64), np.float32), (8, 8)).dtype == np.float32
    assert Wavelet().coefficients(np.ones((2, 64), np.float32), (8, 8)).dtype == np.float32


def test_bands_in_words():
    bands = Fourier().bands((64, 64))
    n = len(bands.names)
    assert bands.called([2]) == "scales of 3 to 4 cells"
    assert bands.called([0, 1, 2, 5]) == "scales below 4 cells, scales of 8 to 12 cells"
    assert bands.called([n - 2]) == "scales of 64 cells and more"
    assert bands.called([n - 1]) == "the mean of the field"
    assert bands.called(range(4, n)) == "scales of 6 cells and more"


def test_regions_are_sets_of_cells():
    regions = Regions([[0, 0, 3], [-1, 3, 3]])
    bands = regions.bands((2, 3))
    assert bands.names == ("region 0", "region 3")
    assert bands.labels.tolist() == [0, 0, 1, -1, 1, 1]
    assert bands.signed
    assert bands.called([0, 1]) == "region 0, region 3"


def test_a_matrix_of_many_rows_has_64_bands():
    points = np.arange(100.0)
    basis = Matrix(np.eye(100))
    assert np.array_equal(basis.coefficients(points, (10, 10)), points)
    assert len(basis.bands((10, 10)).names) == 64
    assert Matrix(np.eye(3, 9), [0, 0, 7]).bands((3, 3)).names == ("band 0", "band 7")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Matrix(np.ones(3)), "a matrix (n_coefficients, n_cells)"),
        (lambda: Matrix("no"), "a matrix of numbers"),
        (lambda: Matrix(np.eye(3), [0, 1]), "whole numbers of shape (3,)"),
        (lambda: Wavelet("bior2.2"), "`name` must be one of"),
        (lambda: Wavelet(levels=0), "`levels` must be"),
        (lambda: Wavelet(levels=4).bands((8, 8)), "at least 16 cells along each axis"),
        (lambda: Wavelet().bands((64, 1)), "at least 2 cells along each axis"),
        (lambda: Regions([0.5, 1.5]), "whole numbers"),
        (lambda: Regions([-1, -1]), "whole numbers"),
        (lambda: Regions(np.arange(65)), "at most 64 bands"),
        (lambda: Regions([0, 1]).coefficients(np.ones(3), (3,)), "fields of 3 cells"),
        (lambda: bases.fitting("fourier", (8, 8)), "a basis, like `tarpon.bases.Fourier()`"),
        (lambda: bases.fitting(Fourier, (8, 8)), "Pass an object: `Fourier(...)`"),
    ],
)
def test_bad_bases_are_refused_in_words(make, said):
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert said in str(error.value)


def test_plain_vectors_have_no_basis_unless_told():
    assert bases.fitting(None, (64,)) is None
    assert isinstance(bases.fitting(None, (8, 8)), Fourier)
    assert isinstance(bases.fitting(Fourier(), (64,)), Fourier)
