"""Networks over time without attention: convolutions over samples, and recurrent cells step by step."""

from dse.sources.zoo.network import Define, Definition, Input, Layers, Tensor, features, tokens

# Convolutions over time -----------------------------------------------------------------------------------------------


def _causal(net: Layers, x: Tensor, channels: int, kernel: int, dilation: int) -> Tensor:
    """A convolution of the past."""
    padded = net.functional.pad(x, ((kernel - 1) * dilation, 0))
    return net.conv(padded, channels, kernel, padding=0, dilation=dilation, bias=True)


def wavenet(net: Layers, x: Tensor) -> Tensor:
    """WaveNet (van den Oord et al. 2016): two stacks of ten dilated layers with gates."""
    x = _causal(net, x, 64, 2, 1)
    total = None
    for layer in range(20):
        dilation = 2 ** (layer % 10)
        gated = _causal(net, x, 64, 2, dilation).tanh() * _causal(net, x, 64, 2, dilation).sigmoid()
        skip = net.conv(gated, 256, 1, bias=True)
        total = skip if total is None else total + skip
        x = x + net.conv(gated, 64, 1, bias=True)
    assert total is not None
    return net.conv(net.conv(total.relu(), 256, 1, bias=True).relu(), 256, 1, bias=True)


def temporal_convolutions(net: Layers, x: Tensor) -> Tensor:
    """TCN (Bai et al. 2018): eight residual blocks of two dilated causal convolutions."""
    for level in range(8):
        y = x
        for _ in range(2):
            y = _causal(net, y, 150, 7, 2**level).relu()
        x = (y + (x if x.shape == y.shape else net.conv(x, 150, 1, bias=True))).relu()
    return net.linear(x[:, :, -1], 10)


def conv_tasnet(net: Layers, wave: Tensor) -> Tensor:
    """Conv-TasNet (Luo and Mesgarani 2019), two repeats of eight blocks: two speakers out of one microphone."""
    encoded = net.conv(wave, 512, 16, 8, padding=0).relu()
    x = net.conv(net.group_norm(encoded, 1), 128, 1, bias=True)
    total = None
    for block in range(16):
        dilation = 2 ** (block % 8)
        y = net.group_norm(net.functional.leaky_relu(net.conv(x, 512, 1, bias=True), 0.25), 1)
        y = net.conv(y, 512, 3, groups=512, dilation=dilation, bias=True)
        y = net.group_norm(net.functional.leaky_relu(y, 0.25), 1)
        skip = net.conv(y, 128, 1, bias=True)
        total = skip if total is None else total + skip
        x = x + net.conv(y, 128, 1, bias=True)
    assert total is not None
    masks = net.conv(net.functional.leaky_relu(total, 0.25), 1024, 1, bias=True).sigmoid().chunk(2, 1)
    return net.concatenate(*(net.deconv(encoded * mask, 1, 16, 8, 0) for mask in masks))


def quartznet(net: Layers, x: Tensor) -> Tensor:
    """QuartzNet 5 × 5 (Kriman et al. 2020): blocks of separable convolutions over frames of sound."""
    x = net.block(net.conv(x, 64, 33, 2, groups=64), 256, 1)
    for kernel, channels in ((33, 256), (39, 256), (51, 512), (63, 512), (75, 512)):
        shortcut = net.conv_norm(x, channels, 1)
        for layer in range(5):
            x = net.conv_norm(net.conv(x, x.shape[1], kernel, groups=x.shape[1]), channels, 1)
            x = (x if layer < 4 else x + shortcut).relu()
    x = net.block(net.conv(x, 512, 87, groups=512, dilation=2), 512, 1)
    return net.conv(net.block(x, 1024, 1), 29, 1, bias=True).log_softmax(1)


def raw_sound(net: Layers, wave: Tensor) -> Tensor:
    """M5 (Dai et al. 2017): a classifier of sound from its samples."""
    x = net.max_pool(net.block(wave, 128, 80, 4), 4, 4)
    for channels in (128, 256, 512):
        x = net.max_pool(net.block(x, channels), 4, 4)
    return net.classify(x, 10).log_softmax(1)


# Recurrent cells ------------------------------------------------------------------------------------------------------


class Cell:
    """A recurrent cell: its weights are the same in every step."""

    def __init__(self, net: Layers, kind: str, inner: int, width: int) -> None:
        self.net, self.kind, self.width = net, kind, width
        gates = {"lstm": 4, "gru": 3, "elman": 1}[kind]
        shapes = (gates * width, inner), (gates * width, width), (gates * width,), (gates * width,)
        self.to_gates, self.from_state, self.bias, self.state_bias = net.weights(kind, *shapes)

    def step(self, x: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """The next state, its first tensor the output (Hochreiter and Schmidhuber 1997; Cho et al. 2014)."""
        linear = self.net.functional.linear
        given = linear(x, self.to_gates, self.bias)
        own = None if state is None else linear(state[0], self.from_state, self.state_bias)
        if self.kind == "elman":
            return ((given if own is None else given + own).tanh(),)
        if self.kind == "gru":
            reset, update, new = given.chunk(3, -1)
            if own is None or state is None:
                return ((1 - update.sigmoid()) * new.tanh(),)
            own_reset, own_update, own_new = own.chunk(3, -1)
            blend = (update + own_update).sigmoid()
            candidate = (new + (reset + own_reset).sigmoid() * own_new).tanh()
            return ((1 - blend) * candidate + blend * state[0],)
        enter, forget, new, leave = (given if own is None else given + own).chunk(4, -1)
        memory = enter.sigmoid() * new.tanh()
        if state is not None:
            memory = forget.sigmoid() * state[1] + memory
        return leave.sigmoid() * memory.tanh(), memory


def unrolled(net: Layers, kind: str, steps: list[Tensor], width: int) -> list[Tensor]:
    """A cell over ``steps`` from an empty state; its output at each."""
    cell = Cell(net, kind, steps[0].shape[-1], width)
    state: tuple[Tensor, ...] | None = None
    outputs = []
    for x in steps:
        state = cell.step(x, state)
        outputs.append(state[0])
    return outputs


def both_ways(net: Layers, kind: str, steps: list[Tensor], width: int) -> list[Tensor]:
    """Two cells, one forwards and one backwards, their outputs side by side."""
    ahead, back = unrolled(net, kind, steps, width), unrolled(net, kind, steps[::-1], width)[::-1]
    return [net.concatenate(*pair, axis=-1) for pair in zip(ahead, back, strict=True)]


def in_steps(x: Tensor) -> list[Tensor]:
    """The steps of [B, T, …]."""
    return list(x.unbind(1))


def words(net: Layers, text: Tensor, rows: int, width: int) -> list[Tensor]:
    """Each word looked up in one table when its step comes."""
    (table,) = net.weights("embedding", (rows, width))
    return [net.functional.embedding(word, table) for word in in_steps(text)]


def each(net: Layers, steps: list[Tensor], width: int) -> tuple[Tensor, ...]:
    """One linear layer on every step; the model answers step by step."""
    weight, bias = net.weights("linear", (width, steps[0].shape[-1]), (width,))
    return tuple(net.functional.linear(x, weight, bias) for x in steps)


def character_rnn(net: Layers, text: Tensor) -> tuple[Tensor, ...]:
    """A language model of characters with one simple recurrent layer (Mikolov et al. 2010), 24 steps."""
    return each(net, unrolled(net, "elman", words(net, text, 96, 128), 512), 96)


def lstm_language_model(net: Layers, text: Tensor) -> tuple[Tensor, ...]:
    """The medium language model of Zaremba et al. 2014: two layers of 650, 16 steps."""
    steps = words(net, text, 10_000, 650)
    for _ in range(2):
        steps = unrolled(net, "lstm", steps, 650)
    return each(net, steps, 10_000)


def bilstm_tagger(net: Layers, text: Tensor) -> tuple[Tensor, ...]:
    """A tagger of words (Huang et al. 2015, without the CRF): one LSTM each way, 12 words."""
    return each(net, both_ways(net, "lstm", words(net, text, 20_000, 300), 256), 17)


def seq2seq(net: Layers, text: Tensor, answer: Tensor) -> tuple[Tensor, ...]:
    """Translation by two LSTMs of two layers (Sutskever et al. 2014), 8 words each way, the answer given."""
    cells = [Cell(net, "lstm", 512, 512) for _ in range(2)]
    states: list[tuple[Tensor, ...] | None] = [None, None]
    for x in words(net, text, 16_000, 512):
        for layer, cell in enumerate(cells):
            states[layer] = state = cell.step(x, states[layer])
            x = state[0]
    cells = [Cell(net, "lstm", 512, 512) for _ in range(2)]
    outputs = []
    for x in words(net, answer, 8_000, 512):
        for layer, cell in enumerate(cells):
            states[layer] = state = cell.step(x, states[layer])
            x = state[0]
        outputs.append(x)
    return each(net, outputs, 8_000)


def gru_forecast(net: Layers, x: Tensor) -> tuple[Tensor, ...]:
    """A forecast of 12 steps by three layers of GRU (Salinas et al. 2020 have LSTMs): mean and spread of each."""
    steps = in_steps(x)
    for _ in range(3):
        steps = unrolled(net, "gru", steps, 128)
    return *each(net, steps, 1), *(net.functional.softplus(spread) for spread in each(net, steps, 1))


def speaker(net: Layers, frames: Tensor) -> Tensor:
    """A speaker's vector from three layers of LSTM with projections (Wan et al. 2018), 12 frames."""
    steps = in_steps(frames)
    for _ in range(3):
        steps = list(each(net, unrolled(net, "lstm", steps, 768), 256))
    return net.apply(net.functional.normalize, steps[-1], dim=-1)


def crnn(net: Layers, x: Tensor) -> Tensor:
    """Reading text in pictures (Shi et al. 2017): convolutions, then two LSTMs each way over the columns."""
    x = net.max_pool(net.conv(x, 64, bias=True).relu(), 2)
    x = net.max_pool(net.conv(x, 128, bias=True).relu(), 2)
    x = net.conv(net.conv(x, 256, bias=True).relu(), 256, bias=True).relu()
    x = net.functional.max_pool2d(x, (2, 1))
    x = net.block(net.block(x, 512, bias=True), 512, bias=True)
    x = net.functional.max_pool2d(x, (2, 1))
    x = net.block(x, 512, 2, padding=0, bias=True)
    steps = in_steps(x.squeeze(2).transpose(1, 2))
    for _ in range(2):
        steps = both_ways(net, "lstm", steps, 256)
    return net.linear(net.torch.stack(steps, 1), 37)


def deep_speech(net: Layers, x: Tensor) -> Tensor:
    """Deep Speech 2 (Amodei et al. 2016), small: two convolutions, two GRUs each way over 8 frames, letters."""
    x = net.functional.hardtanh(net.norm(net.conv(x, 32, (11, 41), (2, 2))), 0.0, 20.0)
    x = net.functional.hardtanh(net.norm(net.conv(x, 32, (11, 21), (1, 2))), 0.0, 20.0)
    steps = in_steps(x.permute(0, 2, 1, 3).flatten(2))
    for _ in range(2):
        steps = both_ways(net, "gru", steps, 800)
    return net.linear(net.torch.stack(steps, 1), 29)


def convolutional_lstm(net: Layers, video: Tensor) -> Tensor:
    """Rain ahead (Shi et al. 2015): two layers of convolutional LSTM over 10 pictures."""
    steps = in_steps(video)
    for width in (64, 64):
        input_weight, state_weight, bias = net.weights(
            "convlstm", (4 * width, steps[0].shape[1], 3, 3), (4 * width, width, 3, 3), (4 * width,)
        )
        hidden = memory = None
        states = []
        for x in steps:
            gates = net.functional.conv2d(x, input_weight, bias, padding=1)
            if hidden is not None:
                gates = gates + net.functional.conv2d(hidden, state_weight, padding=1)
            enter, forget, new, leave = gates.chunk(4, 1)
            fresh = enter.sigmoid() * new.tanh()
            memory = fresh if memory is None else forget.sigmoid() * memory + fresh
            hidden = leave.sigmoid() * memory.tanh()
            states.append(hidden)
        steps = states
    return net.conv(steps[-1], 1, 1, bias=True)


def _temporal(name: str, define: Define, *inputs: Input) -> Definition:
    return Definition(name, "temporal", inputs, define)


MODELS = (
    _temporal("wavenet", wavenet, Input((1, 1, 4096))),
    _temporal("tcn", temporal_convolutions, Input((1, 1, 784))),
    _temporal("conv-tasnet", conv_tasnet, Input((1, 1, 16_000))),
    _temporal("quartznet-5x5", quartznet, Input((1, 64, 512))),
    _temporal("m5-sound", raw_sound, Input((1, 1, 16_000))),
    Definition("deep-speech-2", "recurrent", (Input((1, 1, 16, 161)),), deep_speech),
    Definition("char-rnn", "recurrent", (tokens(24),), character_rnn),
    Definition("lstm-language-model", "recurrent", (tokens(16),), lstm_language_model),
    Definition("bilstm-tagger", "recurrent", (tokens(12),), bilstm_tagger),
    Definition("seq2seq", "recurrent", (tokens(8), tokens(8)), seq2seq),
    Definition("gru-forecast", "recurrent", (features(12, 8),), gru_forecast),
    Definition("speaker-lstm", "recurrent", (features(12, 40),), speaker),
    Definition("crnn", "recurrent", (Input((1, 1, 32, 40)),), crnn),
    Definition("convlstm", "recurrent", (features(10, 1, 64, 64),), convolutional_lstm),
)
