"""Heat maps of LayerNorm's Fisher information, beside the paper's and with missing values."""

import numpy as np
import pandas as pd
import pytest

from subtune import papers
from subtune.analysis import parameters
from subtune.tasks import TASKS
from tests.helpers.examples import sums
from tests.helpers.exhibits import made, titled

BOTH = titled(TASKS["qnli"], TASKS["sst2"])


SHARES = parameters.information_tables(
    pd.concat([sums("qnli"), sums("sst2", output_LayerNorm=3.0)])
)["layernorm_information"]


def heat_maps(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_the_largest_change_is_the_darkest_and_its_parameter_comes_first():
    rows = [("b_v", 0.1, 0.1), ("b_q", 0.3, 0.1), ("b_m2", 0.2, 0.9)]
    table = pd.DataFrame(rows, columns=["parameter", 0, 1]).melt("parameter", var_name="layer")
    table = table.rename(columns={"value": "change"}).assign(model="m", method="bitfit", task="rte")
    rte = titled(TASKS["rte"])
    [panel] = heat_maps(made("bitfit", "figure1", {"parameter_changes": table}, tasks=rte))
    assert [label.get_text() for label in panel.get_yticklabels()] == ["b_m2", "b_q", "b_v"]
    # Layers are numbered from 1, and the average follows them.
    columns = {label.get_position()[0]: label.get_text() for label in panel.get_xticklabels()}
    assert columns == {0: "1", 1: "2", 2: "avg."}
    [image] = panel.images
    shown = np.array(image.get_array())
    assert shown == pytest.approx(np.array([[0.2, 0.9, 0.55], [0.3, 0.1, 0.2], [0.1, 0.1, 0.1]]))
    assert darkens(image) and image.get_clim() == (0.1, 0.9)


def darkens(image):
    """Return whether colours become darker from the smallest to the largest value."""
    low, high = image.get_clim()
    colours = image.cmap(image.norm(np.linspace(low, high, 20)))[:, :3]
    return bool((np.diff(colours @ [0.299, 0.587, 0.114]) < 0).all())


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_cells_that_cannot_be_read_are_hatched_and_have_no_number():
    figure = made("layernorm", "figure3", {"layernorm_information": SHARES}, tasks=BOTH)
    assert all(darkens(axes.images[0]) for axes in heat_maps(figure))
    hatched = {axes.get_title(): len(axes.patches) for axes in heat_maps(figure)}
    assert hatched == {
        "this run: weight": 0, "this run: bias": 0, "paper: weight": 5, "paper: bias": 0,
    }  # fmt: skip
    [weights] = [axes for axes in heat_maps(figure) if axes.get_title() == "paper: weight"]
    assert len(texts(weights)) == 2 * 24 - 5


def test_ours_and_the_papers_global_information_are_on_one_scale():
    ours = parameters.global_layernorm_information(SHARES)
    figure = made("layernorm", "figure4", {"global_layernorm_information": ours})
    run, paper = heat_maps(figure)
    assert darkens(run.images[0])
    assert texts(run) == ["1.00"] * 4
    values = (
        papers.find_paper("layernorm")
        .read_printed("figure4")
        .pivot(index="layer", columns="part")["value"]
    )
    assert texts(paper) == [f"{value:.2f}" for value in np.ravel(values[["weight", "bias"]])]
    limits = np.array([axes.images[0].get_clim() for axes in (run, paper)])
    # An even share is 2 tasks / 2 layers here, and 7.98 / 24 with the paper's rounding.
    assert limits[0] / 1 == pytest.approx(limits[1] / (7.98 / 24))
    bars = [axes.get_xlabel() for axes in figure.axes if axes not in (run, paper)]
    assert bars == ["sum over 2 tasks", "sum over 8 tasks"]
