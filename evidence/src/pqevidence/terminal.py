"""The terminal that everything printed must fit."""

from typing import Final

COLUMNS: Final = 80
