"""Official files of tasks outside GLUE, in a directory of the user."""

import json

import pytest

from subtune.core.errors import SubtuneError
from subtune.data import files
from subtune.data.files import require_version, version_of
from subtune.data.load import load
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS

CONLLU = """\
# sent_id = {split}-1
1\tShe\tshe\tPRON\tPRP\t_\t0\troot\t_\t_
2\twalks\twalk\tVERB\tVBZ\t_\t1\tdep\t_\t_

"""


def write_ud_ewt(directory, splits=("train", "dev", "test")):
    for split in splits:
        text = CONLLU.format(split=split)
        (directory / f"en_ewt-ud-{split}.conllu").write_text(text)


def write_squad(directory):
    answers = [{"text": "Oslo", "answer_start": 14}]
    question = {"id": "1", "question": "Where does Anna live?", "answers": answers}
    paragraph = {"context": "Anna lives in Oslo.", "qas": [question]}
    for split in ("train", "dev"):
        text = json.dumps({"version": "1.1", "data": [{"paragraphs": [paragraph]}]})
        (directory / f"{split}-v1.1.json").write_text(text)


def write_ptb(directory):
    """Sections 00 to 24, in two files each."""
    for section in range(25):
        folder = directory / "parsed" / "mrg" / "wsj" / f"{section:02}"
        folder.mkdir(parents=True)
        for number in (1, 2):
            tree = f"( (S (NP (NNP S{section}F{number})) (VP (VBZ walks)) (. .)) )\n"
            (folder / f"wsj_{section:02}{number:02}.mrg").write_text(tree)


def paths_of(name, directory):
    return files.paths_of(TASKS[name], "files", TASKS[name].labelled, directory=str(directory))


def loaded(name, directory):
    spec = DataSpec(task=TASKS[name], source="files", version="1")
    return load(spec, directory=str(directory))


def test_the_english_web_treebank_and_squad_are_read_from_their_files(tmp_path):
    write_ud_ewt(tmp_path)
    rows = loaded("ud_ewt", tmp_path)
    assert set(rows) == {"train", "validation"}
    assert rows["validation"]["words"][0] == ["She", "walks"]
    labels = TASKS["ud_ewt"].labels
    assert rows["train"]["label"][0] == [labels.index("PRP"), labels.index("VBZ")]
    write_squad(tmp_path)
    assert loaded("squad", tmp_path)["validation"]["answers"][0] == ["Oslo"]


def test_a_file_of_a_directory_that_is_changed_is_refused_or_named(tmp_path):
    write_ptb(tmp_path)
    paths = paths_of("ptb", tmp_path)
    spec = DataSpec(task=TASKS["ptb"], source="files", version=version_of(paths))
    require_version(spec, paths)
    rows = loaded("ptb", tmp_path)
    assert {split: len(rows[split]) for split in rows} == {"train": 38, "validation": 6}
    path = tmp_path / "parsed" / "mrg" / "wsj" / "07" / "wsj_0702.mrg"
    path.write_text(path.read_text().replace("NNP", "XYZ"))
    with pytest.raises(SubtuneError, match=r"or one of 43 others: changed since this was planned"):
        require_version(spec, paths)
    with pytest.raises(SubtuneError, match=r"wsj: 07/wsj_0702\.mrg: .*found 'XYZ'"):
        loaded("ptb", tmp_path)


def test_test_files_may_be_absent_and_others_may_not(tmp_path):
    write_ud_ewt(tmp_path, splits=("train", "dev"))
    task = TASKS["ud_ewt"]
    assert [*files.official_paths(str(tmp_path), task)] == ["train", "validation"]
    (tmp_path / "en_ewt-ud-dev.conllu").unlink()
    with pytest.raises(SubtuneError, match=r"directories\.ud_ewt: .*ud-dev\.conllu is missing"):
        files.official_paths(str(tmp_path), task)
    for name in files.RELEASES:
        with pytest.raises(
            SubtuneError, match=f"directories.{name}: found no directory .*nowhere'"
        ):
            files.official_paths(str(tmp_path / "nowhere"), TASKS[name])
