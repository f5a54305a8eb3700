"""What one would build with: modules that need PyTorch and jaxtyping, and nothing of the course."""
