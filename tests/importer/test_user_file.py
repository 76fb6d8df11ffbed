"""A user's Python file: which of the files that it imports are the user's."""

import sys

import pytest

from dse.importer.user_file import loaded


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_libraries_of_another_environment_are_not_the_users(tmp_path, monkeypatch, folder):
    library = tmp_path / "environment" / folder
    library.mkdir(parents=True)
    (library / "some_library.py").write_text("size = 3\n")
    (tmp_path / "some_helper.py").write_text("size = 4\n")
    (tmp_path / "step.py").write_text("import some_helper, some_library\n")
    monkeypatch.syspath_prepend(library)
    with loaded(tmp_path / "step.py") as file:
        pass
    assert [each.name for each in file.local_files] == ["some_helper.py", "step.py"]
    assert "some_library" in sys.modules
    assert "some_helper" not in sys.modules
    del sys.modules["some_library"]
