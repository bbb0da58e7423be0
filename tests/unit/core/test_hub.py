"""The hub: commits that are known without asking it."""

import pytest

from subtune.config.fields import HUB_MODELS
from subtune.core.errors import SubtuneError
from subtune.core.hub import COMMIT, GLUE, SQUAD, UNIVERSAL_DEPENDENCIES, pin_revision


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "pinned.json"


@pytest.mark.parametrize("repository", [GLUE, SQUAD, UNIVERSAL_DEPENDENCIES, *HUB_MODELS.values()])
def test_what_the_papers_use_is_at_one_commit_where_no_revision_is_named(repository, kept):
    assert COMMIT.fullmatch(pin_revision(repository, None, "model", kept, "revision"))


@pytest.mark.parametrize("text", ["{", "[]", '{"a/b@main": "main"}', '{"a/b@main": 7}'])
def test_a_file_of_commits_that_is_damaged_is_named_in_one_line(kept, text):
    kept.write_text(text)
    with pytest.raises(
        SubtuneError, match=r"pinned\.json: cannot be read, expected JSON with a commit"
    ):
        pin_revision("a/b", "main", "model", kept, "revision")
