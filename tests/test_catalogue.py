"""The shipped formulas: counts worked out by hand, and by brute force over masks and indices."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from fusion.formulas import recorded
from fusion.formulas.catalogue import Catalogue, FormulaError
from fusion.formulas.recorded import RecordedTensor

ROOT = Path(__file__).parent.parent
RECORDED = Path(__file__).parent / "resources" / "cases.jsonl"
COMPUTE = [
    "flash_attention_forward",
    "flash_attn_varlen_func",
    "flash_mla",
    "flash_mla_sparse_fwd",
    "sparse_mla_fwd_interface",
    "rwkv_mm_sparsity",
]
MEMORY = [
    "apply_repetition_penalties",
    "apply_rotary_pos_emb",
    "concat_and_cache_mla",
    "cross_entropy_loss",
    "dgeglu",
    "dreglu",
    "fused_add_rms_norm",
    "geglu",
    "gelu_and_mul",
    "get_scheduler_metadata",
    "instance_norm",
    "moe_align_block_size_triton",
    "moe_sum",
    "reglu",
    "reshape_and_cache",
    "reshape_and_cache_flash",
    "rwkv_ka_fusion",
    "silu_and_mul",
    "silu_and_mul_out",
    "skip_layer_norm",
    "topk_softmax",
    "weight_norm",
]
ALIASES = {
    "skip_layernorm": "skip_layer_norm",
    "weight_norm_interface": "weight_norm",
    "_flash_attention_forward": "flash_attention_forward",
    "flash_attn_varlen_func_noncontig": "flash_attn_varlen_func",
    "triton_sparse_mla_fwd_interface": "sparse_mla_fwd_interface",
    "moe_align_block_size_fast_paths": "moe_align_block_size_triton",
}
# Its recorded calls say that some indices are padding, yet not how many: they hold no values.
UNDECIDED = "sparse_mla_fwd_interface"


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(ROOT / "formulas" / "fusion_metrics_formulas.yaml")


@pytest.fixture(scope="module")
def count(catalogue):
    """Count a call's work by an operator's name and the arguments of its benchmark."""
    return lambda name, *args, **kwargs: catalogue.resolve(name).value(args, kwargs)


def tensor(*shape, dtype="float16"):
    """Stand for a tensor of which only shape and dtype matter; NumPy has no bfloat16."""
    return RecordedTensor(shape, dtype)


def ints(*values, dtype=np.int64):
    return np.array(values, dtype)


def kept(queries, keys, causal, left, right):
    """Count the pairs that a mask keeps, one by one."""
    pairs = 0
    for query, key in itertools.product(range(queries), range(keys)):
        distance = key - (query + keys - queries)
        pairs += not (
            (causal and distance > 0)
            or (left >= 0 and distance < -left)
            or (right >= 0 and not causal and distance > right)
        )
    return pairs


# The catalogue


@pytest.mark.parametrize(
    ("name", "category"),
    [(name, "compute") for name in COMPUTE] + [(name, "memory") for name in MEMORY],
)
def test_operator_is_enabled_with_its_category_and_reference(catalogue, name, category):
    """Each of the 28 operators is enabled, of its category, and says where its formula is from."""
    formula = catalogue.formulas[name]
    assert (formula.enabled, formula.category) == (True, category)
    assert formula.reference.startswith(f"{formula.source}: ")
    assert formula.source.startswith("src/flag_gems/")


def test_there_are_28_of_them():
    """The lists above hold each operator once."""
    assert len(set(COMPUTE + MEMORY)) == 28


@pytest.mark.parametrize(("alias", "operator"), ALIASES.items())
def test_alias_leads_to_its_operator(catalogue, alias, operator):
    """A name that a marker or a record uses leads to the operator's formula."""
    assert catalogue.resolve(alias) is catalogue.formulas[operator]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("silu_and_mul", None),
        ("flash_mla", "bfloat16"),
        ("get_scheduler_metadata", "bfloat16"),
        ("moe_align_block_size_triton", "int32"),
    ],
)
def test_dtype_is_given_only_where_float32_does_not_fit(catalogue, name, dtype):
    """A benchmark without float32 has a default dtype of its own, the others have none."""
    assert catalogue.formulas[name].dtype == dtype


# Memory


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("silu_and_mul", (tensor(3, 5), tensor(3, 5)), 3 * 15 * 2),
        ("silu_and_mul_out", (tensor(3, 5), tensor(3, 5)), 3 * 15 * 2),
        ("gelu_and_mul", (tensor(3, 5, dtype="float32"),) * 2, 3 * 15 * 4),
        ("geglu", (tensor(3, 6, dtype="bfloat16"), None), (18 + 9) * 2),
        ("reglu", (tensor(3, 6), None), (18 + 9) * 2),
        ("dgeglu", (tensor(3, 3), tensor(3, 6), None), (9 + 18 + 18) * 2),
        ("dreglu", (tensor(3, 3), tensor(3, 6), None), (9 + 18 + 18) * 2),
        (
            "fused_add_rms_norm",
            (tensor(3, 5), tensor(3, 5), (5,), tensor(5), 1e-5),
            (2 * 15 + 2 * 15 + 5) * 2,
        ),
        (
            "skip_layer_norm",
            (tensor(3, 5), tensor(3, 5), (5,), tensor(5), tensor(5)),
            (3 * 15 + 2 * 5) * 2,
        ),
        ("weight_norm", (tensor(3, 5), tensor(1, 5), 1), (15 + 5 + 15) * 2),
        ("moe_sum", (tensor(3, 4, 5), tensor(3, 5)), (60 + 15) * 2),
        (
            "rwkv_ka_fusion",
            (tensor(3, 8), tensor(8), tensor(3, 8), tensor(8), 2, 4),
            (24 + 8 + 24 + 8 + 3 * 24) * 2,
        ),
        (
            "apply_repetition_penalties",
            (tensor(2, 7), tensor(2, 7, dtype="bool"), tensor(2, 7, dtype="bool"), tensor(2)),
            2 * 14 * 2 + 14 + 14 + 2 * 2,
        ),
    ],
)
def test_every_element_is_read_or_written_once(count, name, args, expected):
    """An operator without indices moves each element once, those updated in place twice."""
    assert count(name, *args) == expected


@pytest.mark.parametrize("renormalize", [False, True])
def test_topk_softmax_writes_three_results(count, renormalize):
    """Weights, experts and source rows are written at their own sizes, renormalised or not."""
    results = (
        tensor(4, 2, dtype="float32"),
        tensor(4, 2, dtype="int64"),
        tensor(4, 2, dtype="int32"),
    )
    gates = tensor(4, 16, dtype="bfloat16")
    assert count("topk_softmax", *results, gates, renormalize) == 8 * 4 + 8 * 8 + 8 * 4 + 64 * 2


@pytest.mark.parametrize(
    ("statistics", "own", "expected"),
    [
        ((None, None), True, 2 * 240 * 2 + 2 * 3 * 2),
        ((tensor(3, dtype="float32"),) * 2, True, 2 * 240 * 2 + 2 * 3 * 2 + 2 * 2 * 3 * 4),
        ((tensor(3, dtype="float32"),) * 2, False, 2 * 240 * 2 + 2 * 3 * 2 + 2 * 3 * 4),
    ],
)
def test_instance_norm_updates_or_reads_running_statistics(count, statistics, own, expected):
    """Running statistics are read and written when the input's own are used, else only read."""
    args = tensor(4, 3, 20), tensor(3), tensor(3), *statistics, own, 0.1, 1e-5, True
    assert count("instance_norm", *args) == expected


def test_rotary_embedding_reads_the_first_rows_of_the_tables(count):
    """Without positions only as many rows of the tables are read as the sequence is long."""
    q, k, table = tensor(2, 5, 4, 8), tensor(2, 5, 1, 8), tensor(100, 4, dtype="float32")
    heads = 2 * (2 * 5 * 4 * 8 + 2 * 5 * 1 * 8) * 2
    assert count("apply_rotary_pos_emb", q, k, table, table) == heads + 2 * 5 * 4 * 4


def test_rotary_embedding_reads_each_position_that_occurs(count):
    """With positions each row that occurs is read once, and so are the positions."""
    q, k, table = tensor(2, 3, 4, 8), tensor(2, 3, 1, 8), tensor(100, 4)
    positions = np.array([[7, 8, 9], [9, 7, 40]])
    heads = 2 * (2 * 3 * 4 * 8 + 2 * 3 * 1 * 8) * 2
    counted = count("apply_rotary_pos_emb", q, k, table, table, position_ids=positions)
    assert counted == heads + 6 * 8 + 2 * len({7, 8, 9, 40}) * 4 * 2


def touched(slots, source_row, cache_row):
    """Return the bytes of the slots, the rows read and the rows written, by sets of indices."""
    read = {(token, slot) for token, slot in enumerate(slots) if slot >= 0}
    written = {slot for _, slot in read}
    return 8 * len(slots) + len(read) * source_row + len(written) * cache_row


SLOTS = [5, -1, 7, 5, -1, 0]


def test_mla_cache_skips_negative_slots(count):
    """A token without a slot moves only its slot number; a slot written twice counts once."""
    args = tensor(6, 16), tensor(6, 4), tensor(2, 8, 20), ints(*SLOTS)
    kwargs = {"kv_cache_dtype": "auto", "scale": tensor(dtype="float32")}
    assert count("concat_and_cache_mla", *args, **kwargs) == touched(SLOTS, 20 * 2, 20 * 2)


def test_mla_cache_in_fp8_reads_the_scale(count):
    """An FP8 cache is written at one byte an element and needs the scale."""
    args = tensor(6, 16), tensor(6, 4), tensor(2, 8, 20, dtype="uint8"), ints(*SLOTS)
    kwargs = {"kv_cache_dtype": "fp8", "scale": tensor(dtype="float32")}
    assert count("concat_and_cache_mla", *args, **kwargs) == touched(SLOTS, 20 * 2, 20) + 4


@pytest.mark.parametrize(
    ("name", "caches"),
    [
        ("reshape_and_cache", (tensor(9, 2, 4, 8, 8), tensor(9, 2, 32, 8))),
        ("reshape_and_cache_flash", (tensor(9, 8, 2, 32), tensor(9, 8, 2, 32))),
    ],
)
def test_cache_counts_rows_and_not_the_table(count, name, caches):
    """Key and value of each kept token are read and their slots written; the scales are not."""
    scale = tensor(dtype="float32")
    kwargs = {"kv_cache_dtype": "auto", "k_scale": scale, "v_scale": scale}
    args = tensor(6, 2, 32), tensor(6, 2, 32), *caches, ints(*SLOTS)
    assert count(name, *args, **kwargs) == touched(SLOTS, 2 * 64 * 2, 2 * 64 * 2)


LOGITS = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, 4 * 8 + 24 * 4 + 4),
        ({"ignore_index": 2}, 4 * 8 + 2 * 6 * 4 + 4),
        ({"reduction": "none"}, 4 * 8 + 24 * 4 + 4 * 4),
        ({"weight": np.ones(6, np.float16)}, 4 * 8 + 24 * 4 + 3 * 2 + 4),
        ({"weight": np.ones(6, np.float16), "ignore_index": 2}, 4 * 8 + 12 * 4 + 2 * 2 + 4),
        ({"weight": np.ones(6, np.float16), "label_smoothing": 0.1}, 4 * 8 + 24 * 4 + 6 * 2 + 4),
    ],
)
def test_cross_entropy_reads_what_its_targets_need(count, kwargs, expected):
    """Ignored rows are not read, and of the class weights only those that occur."""
    assert count("cross_entropy_loss", LOGITS, ints(2, 0, 2, 5), **kwargs) == expected


def test_cross_entropy_of_images_and_of_probabilities(count):
    """Positions may have axes of their own; targets may be probabilities of the logits' shape."""
    logits = np.zeros((2, 5, 3, 3), np.float32)
    target = np.array(range(18)).reshape(2, 3, 3) % 5
    none = {"reduction": "none"}
    assert count("cross_entropy_loss", logits, target, **none) == 18 * 8 + 90 * 4 + 18 * 4
    assert count("cross_entropy_loss", logits, logits, **none) == 90 * 4 + 90 * 4 + 18 * 4


@pytest.mark.parametrize(("batch", "written"), [(8, 9), (992, 993), (993, 1)])
def test_scheduler_metadata_holds_splits_up_to_992_sequences(count, batch, written):
    """The lengths are read; a semaphore and, up to 992 sequences, a number for each are written."""
    lengths = np.ones(batch, np.int32)
    args = batch, batch, 64, 8, 8, 64, lengths, "torch.float16", 64, None, None, None, None
    assert count("get_scheduler_metadata", *args, 0, False) == 4 * batch + 4 * written


def test_scheduler_metadata_reads_the_lengths_that_are_given(count):
    """Cumulative query lengths, new key lengths and left padding count when they are tensors."""
    given = np.ones(5, np.int32), np.ones(5, np.int32), np.ones(4, np.int32)
    args = 4, 16, 64, 8, 8, 64, np.ones(4, np.int32), "torch.float16", 64, *given, None
    assert count("get_scheduler_metadata", *args) == 4 * (4 + 5 + 5 + 4) + 4 * 5


def test_moe_alignment_writes_its_three_results_whole(count):
    """The given results are written to their end, padding included, as their meaning asks."""
    results = tensor(250, dtype="int32"), tensor(32, dtype="int32"), tensor(1, dtype="int32")
    topk_ids = tensor(13, 2, dtype="int64")
    counted = count("moe_align_block_size_triton", topk_ids, 32, 8, *results)
    assert counted == 26 * 8 + (250 + 32 + 1) * 4


@pytest.mark.parametrize("routes", [[0, 1, 2, 3, 0, 1, 2, 3], [3] * 9 + [1], [4]])
def test_moe_fast_path_writes_the_blocks_in_use(count, routes):
    """Each expert that occurs fills blocks of its own; each block also writes its expert."""
    per_expert = {expert: [r for r in routes if r == expert] for expert in routes}
    blocks = [members[i : i + 4] for members in per_expert.values() for i in range(0, 20, 4)]
    used = sum(map(bool, blocks))
    topk_ids = np.array([routes], np.int32)
    counted = count("moe_align_block_size_fast_paths", topk_ids, 8, 4, "small_grouped")
    assert counted == len(routes) * 4 + (used * 4 + used + 1) * 4


# Compute

MASKS = [
    (False, None, None),
    (True, None, None),
    (False, 2, 0),
    (False, 1, 3),
    (False, None, 1),
    (False, 3, None),
    (True, 2, 5),
]
LENGTHS = [(1, 1), (1, 9), (5, 5), (4, 11), (11, 4), (7, 6)]


@pytest.mark.parametrize(("causal", "left", "right"), MASKS)
@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_attention_counts_the_pairs_of_its_mask(count, queries, keys, causal, left, right):
    """Both benchmarks count each kept pair for each query head, whatever the key heads."""
    q = tensor(2, queries, 6, 16)
    k = tensor(2, keys, 3, 16)
    sides = {"window_size_left": left, "window_size_right": right}
    windows = {} if left is right is None else sides
    pairs = kept(queries, keys, causal, *(-1 if side is None else side for side in (left, right)))
    expected = 2 * 6 * pairs * 16 * 2 * 2
    short = q, k, k, 0.25, causal, 0.0, False
    long = q, k, k, None, None, queries, keys, 0.0, causal, False
    assert count("flash_attention_forward", *short, **windows) == expected
    assert count("_flash_attention_forward", *long, scale=0.25, **windows) == expected


@pytest.mark.parametrize(("causal", "left", "right"), MASKS)
def test_packed_attention_counts_each_sequence_by_its_length(count, causal, left, right):
    """Sequences count with their own lengths and not with the longest."""
    window = tuple(-1 if side is None else side for side in (left, right))
    queries, keys = [1, 4, 3, 0], [9, 4, 2, 5]
    starts = np.cumsum([0, *queries]).astype(np.int32)
    cache = tensor(20, 16, 2, 32)
    args = tensor(8, 4, 32), cache, cache, 4, starts, 9, None, ints(*keys), None, 0.0, 0.1
    pairs = sum(kept(*lengths, causal, *window) for lengths in zip(queries, keys))
    assert count("flash_attn_varlen_func", *args, causal, window) == 4 * 4 * 32 * pairs


def test_packed_attention_takes_cumulative_key_lengths(count):
    """Without used lengths the cumulative ones of the keys serve, and no window is no limit."""
    starts, key_starts = ints(0, 2, 5), ints(0, 4, 8)
    q, k = tensor(5, 4, 32), tensor(8, 2, 32)
    counted = count(
        "flash_attn_varlen_func", q, k, k, 3, starts, 4, key_starts, None, None, 0.0, 0.1, True
    )
    assert counted == 4 * 4 * 32 * (kept(2, 4, True, -1, -1) + kept(3, 4, True, -1, -1))


def mla(queries, lengths, causal=True):
    q = tensor(len(lengths), queries, 16, 24)
    table, cache = tensor(len(lengths), 4, dtype="int32"), tensor(8, 64, 1, 24)
    return q, table, cache, 256, 64, len(lengths), queries, ints(*lengths), 16, 1, 24, 20, causal


@pytest.mark.parametrize("queries", [1, 3])
def test_latent_attention_counts_real_lengths_and_both_head_sizes(count, queries):
    """Scores take the whole head and outputs the latent part, over the cache's real lengths."""
    pairs = sum(kept(queries, length, True, -1, -1) for length in (5, 70, 131))
    assert count("flash_mla", *mla(queries, (5, 70, 131))) == 2 * 16 * pairs * (24 + 20)


INDICES = np.array([[[0, 3, -1, 9]], [[2, 2, 100, 4]], [[-5, 10, 11, 9]]], np.int32)


def test_sparse_attention_counts_valid_indices(count):
    """Indices that are negative or no key's do not count, whatever their number."""
    q, kv = tensor(3, 64, 576), tensor(10, 1, 576)
    valid = sum(0 <= index < 10 for index in INDICES.flat)
    expected = 2 * 64 * valid * (576 + 512)
    assert count("flash_mla_sparse_fwd", q, kv, INDICES, 0.5, 512, None, None) == expected
    batched = tensor(1, 3, 64, 576), tensor(1, 10, 1, 576), INDICES[None]
    assert count("sparse_mla_fwd_interface", *batched, d_v=512) == expected


@pytest.mark.parametrize("recorded", [False, True])
def test_sparse_attention_uses_the_first_indices_of_each_query(count, recorded):
    """With a length for each query, what lies behind it does not count."""
    q, kv, lengths = tensor(3, 64, 576), tensor(10, 1, 576), [2, 4, 1]
    rows = [row[0, :length] for row, length in zip(INDICES, lengths)]
    valid = sum(0 <= index < 10 for row in rows for index in row)
    indices = RecordedTensor((3, 1, 4), "int32", {"values": INDICES.tolist()})
    args = q, kv, indices if recorded else INDICES, 0.5, 512, None, ints(*lengths)
    assert count("flash_mla_sparse_fwd", *args) == 2 * 64 * valid * (576 + 512)


def test_sparse_attention_shares_key_heads(count):
    """Each key head's indices serve the query heads of its group alone."""
    indices = np.stack([INDICES[:, 0], INDICES[:, 0]], axis=1)
    q, kv = tensor(3, 64, 576), tensor(10, 2, 576)
    valid = sum(0 <= index < 10 for index in indices.flat)
    counted = count("flash_mla_sparse_fwd", q, kv, indices, 0.5, 512, None, None)
    assert counted == 2 * 32 * valid * (576 + 512)


def test_sparse_product_counts_real_non_zeros(count):
    """Only rows that meet a non-zero element are multiplied."""
    k = np.array([0, 1.5, 0, -2, 0, 0, 3], np.float32)
    assert count("rwkv_mm_sparsity", k, tensor(7, 40, dtype="float32")) == 2 * 3 * 40


# Recorded calls


def counted_calls(catalogue, path):
    """Yield the name that each call of these operators was recorded under, and its count."""
    for call in recorded.load(path):
        formula = catalogue.find(call.op)
        if formula is not None and formula.operator in COMPUTE + MEMORY and call.op != UNDECIDED:
            yield call.op, formula.value(call.args, call.kwargs)


def test_recorded_calls_of_every_operator_are_counted(catalogue):
    """Calls as the benchmarks made them bind and have positive counts, for each operator."""
    counted = list(counted_calls(catalogue, RECORDED))
    resolved = {catalogue.resolve(op).operator for op, _ in counted}
    assert resolved == {*COMPUTE, *MEMORY} - {UNDECIDED}
    assert all(value > 0 for _, value in counted)


def test_recorded_call_without_its_indices_is_refused(catalogue):
    """A count that needs values which were not recorded is refused rather than guessed."""
    (call,) = [call for call in recorded.load(RECORDED) if call.op == UNDECIDED]
    with pytest.raises(FormulaError, match="whose values were recorded"):
        catalogue.resolve(call.op).value(call.args, call.kwargs)


def test_all_recorded_calls_are_counted(catalogue, shared):
    """All calls recorded for these operators have positive counts."""
    counted = list(counted_calls(catalogue, shared / "cases" / "fused_core.jsonl"))
    assert len(counted) > 300
    assert all(value > 0 for _, value in counted)
