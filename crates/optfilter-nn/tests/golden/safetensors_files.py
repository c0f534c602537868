"""Weights of two small networks as Python's own safetensors package writes them.

    pip install numpy safetensors==0.8.0
    python safetensors_files.py            # writes flax.safetensors and torch.safetensors
    python safetensors_files.py FILE       # reads a file back and prints its tensors

Both files hold the same network: a 3x3 convolution from 2 to 3 channels on 4x4 images, ReLU, 2x2 max-pool, flatten, a dense
layer with 2 outputs; once in Flax's layout and once in that of a PyTorch `nn.Sequential`.
"""
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

if len(sys.argv) > 1:
    for name, tensor in sorted(load_file(sys.argv[1]).items()):
        print(name, tensor.dtype, tensor.shape, float(tensor.sum()))
    sys.exit()

conv = np.sin(np.arange(3 * 3 * 2 * 3)).reshape(3, 3, 2, 3).astype(np.float32)
conv_bias = np.array([0.1, -0.2, 0.3], np.float32)
dense = np.cos(np.arange(12 * 2)).reshape(12, 2).astype(np.float32)
dense_bias = np.array([0.5, -0.5], np.float32)
save_file(
    {"Conv_0.kernel": conv, "Conv_0.bias": conv_bias, "Dense_0.kernel": dense, "Dense_0.bias": dense_bias},
    "flax.safetensors",
)
save_file(
    {
        "0.weight": np.ascontiguousarray(conv.transpose(3, 2, 0, 1)),
        "0.bias": conv_bias,
        # rows, columns, channels -> channels, rows, columns; then outputs first
        "4.weight": np.ascontiguousarray(dense.reshape(2, 2, 3, 2).transpose(3, 2, 0, 1).reshape(2, 12)),
        "4.bias": dense_bias,
    },
    "torch.safetensors",
)
