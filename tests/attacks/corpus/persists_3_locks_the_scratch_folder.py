"""Empties the scratch folder and takes its write permission, so that the next submission cannot even begin."""

RAN = {"remove": "ran NoneType", "lock": "ran NoneType|refused EPERM", "answer": "ran int"}
ANSWERS = {
    "gaussian": r"""
import os, shutil
home = os.path.dirname(os.getcwd())
os.chdir("/")
try: attack("remove", shutil.rmtree, os.path.join(home, "work"))
except OSError as error: print(error)
for folder in (home, "/dev/shm", "/tmp"):
    try: attack("lock", os.chmod, folder, 0o500)
    except OSError as error: print(error)
def gaussian(q, K): return attack("answer", int)
"""
}
