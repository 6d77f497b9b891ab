# SPDX-License-Identifier: MIT
"""The charts' colours: told apart by people with each kind of colour vision, and seen against their
background."""

from __future__ import annotations

import numpy as np
import pytest

from linewright.show.report import theme

HUES, ALL = 8, 16
APART = 0.12
"""Least distance in OKLab of any two of the first hues."""
JUST_NOTICEABLE = 0.02
"""Such a distance, side by side."""
SAME_HUE = 8.0
"""Degrees of OKLab's hue below which two colours have one name."""
CONTRAST = 3.0
"""What WCAG 2.2 asks of graphics (criterion 1.4.11)."""
VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Machado, Oliveira and Fernandes, 2009, severity 1.0, on linear RGB."""
TO_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]
"""Björn Ottosson's OKLab."""


def linear(colours: list[str]) -> np.ndarray:
    values = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colours: list[str]) -> np.ndarray:
    return linear(colours) @ np.array([0.2126, 0.7152, 0.0722])


def lab_of(seen: np.ndarray) -> np.ndarray:
    return np.cbrt(seen @ np.array(TO_LMS).T) @ np.array(TO_LAB).T


def closest(colours: list[str], vision: str) -> float:
    lab = lab_of(np.clip(linear(colours) @ np.array(VISION[vision]).T, 0, 1))
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)
    return float(distances[~np.eye(len(colours), dtype=bool)].min())


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("mode", theme.MODES)
def test_hues_stay_apart(mode: str, vision: str):
    assert closest(theme.config(mode)["range"]["category"][:HUES], vision) >= APART


@pytest.mark.parametrize("mode", theme.MODES)
def test_no_two_colours_of_forms_or_situations_are_one(mode: str):
    """Sixteen forms, which an operation of two machines may have, and two greys for situations."""
    ranges = theme.config(mode)["range"]
    colours = [*ranges["category"], *ranges["diverging"]]
    assert len(ranges["category"]) == ALL
    assert closest(colours, "normal") >= 3 * JUST_NOTICEABLE
    assert min(closest(ranges["category"], vision) for vision in VISION) >= 3 * JUST_NOTICEABLE


@pytest.mark.parametrize("mode", theme.MODES)
def test_every_colour_is_seen_against_the_page(mode: str):
    surface = {"light": "#ffffff", "dark": "#171b21"}[mode]
    ranges = theme.config(mode)["range"]
    colours = [*ranges["category"], *ranges["diverging"]]
    ground, colours = luminance([surface])[0], luminance(colours)
    high, low = np.maximum(colours, ground), np.minimum(colours, ground)
    assert ((high + 0.05) / (low + 0.05)).min() >= CONTRAST


def test_lightness_alone_orders_the_heat_and_alike_in_both_themes():
    light, dark = (theme.config(mode)["range"]["heatmap"] for mode in theme.MODES)
    assert light == dark and (np.diff(luminance(light)) < 0).all()


def test_a_form_has_one_hue_in_both_themes():
    """Only its lightness follows the background."""
    hues = []
    for mode in theme.MODES:
        lab = lab_of(linear(theme.config(mode)["range"]["category"]))
        hues.append(np.degrees(np.arctan2(lab[:, 2], lab[:, 1])))
    apart = np.abs((hues[0] - hues[1] + 180) % 360 - 180)
    assert apart.max() < SAME_HUE


def test_common_red_and_green_would_not_pass():
    assert closest(["#d62728", "#2ca02c"], "deuteranopia") < APART
