"""A background thread copies hidden inputs from shared memory into a prediction, whose panel quotes what it got."""

RAN = {"share": "ran mmap", "write": "ran", "watch": "ran", "set": "ran"}
ANSWERS = {
    "normalize": r"""
import mmap, threading, time
SHARED = attack("share", mmap.mmap, -1, 4096)
def normalize(s):
    with attack.on("write"): SHARED[:s.size * 8] = s.astype(float).tobytes()
    return s * 0 + 1
def watch():
    global predict_empty, predict_width
    attack.after("watch")
    told = False
    while True:
        values = np.frombuffer(SHARED[:24])
        if values.any() and not told: attack.after("set"); told = True
        if values.any(): predict_empty = predict_width = " ".join(f"{v:.6f}" for v in values)
        time.sleep(0.001)
threading.Thread(target=watch, daemon=True).start()
"""
}
