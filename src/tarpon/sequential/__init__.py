"""Evidence at any time: bets on ranks, a monitor that collects them, adversaries that learn."""
