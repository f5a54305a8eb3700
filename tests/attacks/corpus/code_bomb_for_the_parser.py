"""As much as is read of tiny statements and of nested operators, to exhaust whoever parses the answers."""

MAX_SECONDS = 30
LESSON = "03_scaled_dot_product"


def tamper(notebook):
    for n in range(5):
        source = "raise SystemExit\n" + ("-" * 100_000 + "1" if n == 0 else "a;" * 90_000)
        notebook["cells"].append({"cell_type": "code", "id": f"z{n}", "metadata": {}, "source": source, "outputs": []})
    return notebook
