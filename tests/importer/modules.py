"""Small modules with known structure, written to files as a user would."""

import importlib.util

import torch

CNN = """
import torch
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(x + self.norm2(self.conv2(y)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*[Block(16) for _ in range(4)])
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        x = F.relu(self.down(self.blocks(x)))
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), labels)

def model():
    return Net(), (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long))
"""

MLP = """
import torch
from torch import nn

def model(microbatch):
    layers = [nn.Linear(64, 64) if i % 2 == 0 else nn.ReLU() for i in range(12)]
    return nn.Sequential(nn.Linear(32, 64), *layers, nn.Linear(64, 5)), torch.randn(microbatch, 32)
"""

LSTM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(24, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])

def model():
    return Net(), torch.randn(2, 20, 24)
"""

WRITTEN_LSTM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(24 + 16, 64)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            i, f, g, o = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h)

def model():
    return Net(), torch.randn(2, 20, 24)
"""

ENCODER_DECODER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.transformer = nn.Transformer(32, 4, 3, 3, 64, batch_first=True)
        self.head = nn.Linear(32, 100)

    def forward(self, source, target):
        x = self.transformer(self.embedding(source), self.embedding(target))
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), target.flatten())

def model():
    tokens = torch.zeros(2, 12, dtype=torch.long)
    return Net(), {"source": tokens, "target": tokens.clone()}
"""

MODULES = {"cnn": CNN, "mlp": MLP, "lstm": LSTM, "written_lstm": WRITTEN_LSTM, "encoder_decoder": ENCODER_DECODER}


def real(path, microbatch):
    """The module and its inputs, made by running the file."""
    spec = importlib.util.spec_from_file_location("real", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.device("meta"):
        return module.model(microbatch) if "def model(microbatch)" in path.read_text() else module.model()


def counted_flops(model, inputs):
    """FLOPs of forward and backward by PyTorch's own counter over a real autograd run."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        result = (
            model(**inputs) if isinstance(inputs, dict) else model(*inputs if isinstance(inputs, tuple) else [inputs])
        )
        forward = counter.get_total_flops()
        result.sum().backward()
    return forward, counter.get_total_flops()
