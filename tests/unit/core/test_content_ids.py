"""Content ids: equal values have equal ids, and nothing but values decides them."""

from subtune.core.content_ids import fingerprint
from tests.helpers.examples import run_spec


def test_equal_specs_have_the_same_id_whatever_way_a_number_is_written():
    assert run_spec(learning_rate=0.001).id == run_spec(learning_rate=1e-3).id
    assert run_spec(weight_decay=0).id == run_spec(weight_decay=0.0).id


def test_every_setting_of_a_recipe_changes_the_id():
    ids = {
        run_spec().id,
        run_spec(learning_rate=0.02).id,
        run_spec(batch_size=8).id,
        run_spec(epochs=3).id,
        run_spec(schedule="constant").id,
        run_spec(warmup=0.2).id,
        run_spec(weight_decay=0.01).id,
        run_spec(max_grad_norm=2.0).id,
        run_spec(precision="bf16").id,
        run_spec(train_rows=5).id,
        run_spec(task="cola").id,
    }
    assert len(ids) == 11


def test_an_id_does_not_change_between_versions_of_this_package():
    assert run_spec().id == "5c46bfdd1978"


def test_a_spec_survives_its_json():
    spec = run_spec()
    assert type(spec).model_validate_json(spec.canonical()) == spec


def test_a_fingerprint_is_of_content_not_of_place(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "c").write_text("y")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "c")
    assert fingerprint(tmp_path / "a", tmp_path / "c") != fingerprint(
        tmp_path / "c", tmp_path / "a"
    )
