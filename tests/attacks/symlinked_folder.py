"""The whole submission is a link to the first student's."""

import shutil


def files(folder):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent.parent / "000_honest" / folder.name)
