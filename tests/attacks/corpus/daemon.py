"""Leaves a double-forked daemon with a name of its own behind, holding every descriptor."""

RAN = {f"fork in {where}": "ran int" for where in ("a cell", "an answer")}
RAN |= {f"daemon of {where}": "pwned" for where in ("a cell", "an answer")}
ANSWERS = {
    "gaussian": r"""
import ctypes, os, time
def leave(where):
    reader, writer = os.pipe()
    if attack(f"fork in {where}", os.fork) == 0:
        os.setsid()
        if os.fork() == 0:
            name, prctl = ctypes.create_string_buffer(16), ctypes.CDLL(None).prctl
            prctl(15, b"pwned", 0, 0, 0)
            prctl(16, name, 0, 0, 0)
            attack.after(f"daemon of {where}", name.value.decode())
            os.write(writer, b"1")
            while True: time.sleep(1)
        os._exit(0)
    os.read(reader, 1)
leave("a cell")
def gaussian(q, K): leave("an answer"); return 0
"""
}
