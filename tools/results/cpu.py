"""Speed of the kernels on this machine, relative to its peak and to oneDNN.

Ratios must come from one run: the rows of this page have a kind instead of being known by their command, and all of
them are measured again whenever the page is measured.
"""
import figures
from book import condition, figure, table, value
from text import code, percent, times

FULL = {
    "model": "random:llada-8b,layers=8",
    # Matmuls of all its layers, to compare them with the same shapes alone: shape -> how often it occurs.
    "matmuls": {"4096x4096": 8 * 4, "4096x12288": 8 * 2, "12288x4096": 8},
    "layers": 8,
    "load": "mini-llada",
    "threads": [1, 2],
    "formats": "int8,int8-group,int4,int4-group,int4-min",
    "shapes": "4096x4096,4096x12288,12288x4096",
    "dense_rows": "1,8,32,64,128,256,512,1024,2048",
    "quantized_rows": "1,2,4,8,16,32,64,512",
    "step_rows": "1024,256",
    "more": "",
}
QUICK = {"model": "mini-llada", "matmuls": {}, "shapes": "64x64", "dense_rows": "1,8", "quantized_rows": "1,8",
         "step_rows": "16,8", "more": " --in-cache"}
INT8_FORMATS = {"avx2": "int4,int4-group,int4-min"}  # formats for which --activations int8 has its own kernels


def commands(grid, instructions):
    """(kind, command, more keys of the row) of everything that is measured, in order."""
    most = f"--threads {max(grid.threads)}"
    dense = f"lacuna bench matmul --rows {grid.dense_rows} --repeat 5 {most}"
    quantized = f"lacuna bench matmul --shape 4096x4096 --rows {grid.quantized_rows} --repeat 9 {most}{grid.more}"
    step = f"lacuna bench step -m {grid.model} --canvas 1024 --repeat 3"
    yield "matmul", f"{dense} --shape {grid.shapes}{grid.more}", {}
    yield "in_cache", f"{dense} --shape 1024x1024 --in-cache", {}
    yield "quantized", f"{quantized} --weights {grid.formats}", {}
    if instructions in INT8_FORMATS:
        yield "int8_activations", f"{quantized} --weights {INT8_FORMATS[instructions]} --activations int8", {}
    yield "attention", f"lacuna bench attention --rows 1,32,256,1024 --repeat 5 {most}", {}
    for count in grid.threads:
        yield "steps", f"{step} --rows {grid.step_rows} --threads {count}", {"threads": count}
    settings = [(weights, "auto") for weights in ("bf16", "int8", "int4")]
    settings += [("int4", "int8")] if instructions in INT8_FORMATS else []
    for weights, activations in settings:
        yield ("quantized_steps", f"{step} --rows 256,32 --dtype bf16 --weights {weights} --activations {activations} "
               + most, {"weights": weights, "activations": activations, "threads": max(grid.threads)})
    yield "load", f"lacuna bench load -m {grid.load} {most}", {}


def measure(measurer, grid):
    """Rows of everything: first the setting, then one for each kind."""
    origin = measurer.origin()
    yield {"kind": "setting", **origin["machine"], "commit": origin["commit"], "model": grid.model, "load": grid.load}
    for kind, command, more in commands(grid, origin["machine"]["instructions"]):
        yield {"kind": kind, **measurer(command + " --json")["result"], **more, "command": command}


def one(run, kind):
    """The row of a kind."""
    return run.of_kind(kind)[0]


@value
def machine(run):
    """Machine and its peaks."""
    setting, dense = one(run, "setting"), one(run, "matmul")
    return (f'{setting["processor"]}, {setting["cores"]} cores, {setting["instructions"]}. '
            f'Peak {dense["peak_gflops_f32"]:.0f} GFLOP/s in f32, {dense["peak_gflops_bf16"]:.0f} in bf16; '
            f'memory {dense["read_gbps"]:.1f} GB/s; {dense["threads"]} threads')


@value
def commit(run):
    """Commit of the rows."""
    return one(run, "setting")["commit"]


@value
def onednn(run):
    """Version of oneDNN."""
    return one(run, "matmul")["onednn"]


@value
def weights_note(run):
    """Where the weights of the dense matmuls are."""
    return "Weights stay in the cache." if one(run, "matmul")["in_cache"] else "Weights rotate over 1 GiB."


@condition
def has_note(run):
    """Whether something was found out about these rows after they were measured."""
    return "note" in one(run, "setting")


@value
def note(run):
    """The findings."""
    return one(run, "setting").get("note", "")


@value
def rows_file(run):
    """File of the raw rows."""
    return f"{run.page.name}.jsonl"


@condition
def has_commands(run):
    """Whether the rows hold their commands."""
    return "command" in one(run, "matmul")


@condition
def has_no_commands(run):
    """Whether the rows are older than the commands in them."""
    return not has_commands(run)


@value
def commands_of(run, kind):
    """Commands of the rows of a kind, with the variables of their environment."""
    found = [row["command"] for row in run.of_kind(kind) if "command" in row]
    instructions = one(run, "setting")["instructions"]
    found = found or [command for each, command, _ in commands(run.grid, instructions) if each == kind]
    variables = "".join(f"{name}={setting} " for name, setting in run.page.environment.items())
    return "\n".join(f"- {code(variables + command)}" for command in found)


def by_rows(bench, cell):
    """A line for each shape and format, a column for each row count."""
    counts = list(dict.fromkeys(found["rows"] for found in bench["results"]))
    lines = {}
    for found in bench["results"]:
        lines.setdefault((found["shape"], found["dtype"]), []).append(cell(found))
    head = ["shape", "weights", *("1 row" if count == 1 else f"{count} rows" for count in counts)]
    return head, [[*key, *cells] for key, cells in lines.items()]


def ratio(found, key):
    """Formats a ratio with two decimals; "-" if it is missing."""
    return "-" if found[key] is None else f"{found[key]:.2f}"


def speed(found):
    """GFLOP/s, and the speedup over oneDNN in brackets."""
    gflops = f'{found["gflops"]:.0f}'
    return gflops if found["ratio_to_onednn"] is None else f'{gflops} ({ratio(found, "ratio_to_onednn")})'


def speedup_over_bf16(found):
    """Speedup over bf16 weights."""
    return ratio(found, "ratio_to_bf16")


@table
def dense(run):
    """Dense weights."""
    return by_rows(one(run, "matmul"), speed)


@condition
def has_in_cache(run):
    """Whether weights in the cache were measured."""
    return bool(run.of_kind("in_cache"))


@table
def in_cache(run):
    """Dense weights that stay in the cache."""
    return by_rows(one(run, "in_cache"), speed)


@table
def bandwidth(run):
    """Memory bandwidth of the weights as a share of what the machine reads."""
    bench = one(run, "matmul")
    return by_rows(bench, lambda found: percent(found["gbps"] / bench["read_gbps"]))


@table
def quantized(run):
    """Quantized weights."""
    return by_rows(one(run, "quantized"), speedup_over_bf16)


@condition
def has_int8_activations(run):
    """Whether --activations int8 has its own kernels here."""
    return bool(run.of_kind("int8_activations"))


@table
def int8_activations(run):
    """Quantized weights and int8 activations."""
    return by_rows(one(run, "int8_activations"), speedup_over_bf16)


@figure()
def roofline(run):
    """Speed by arithmetic intensity, below the roof of the machine."""
    title = "Matmuls below the roof"
    drawn, axes = figures.axes(title, "FLOPs per byte of weights", "GFLOP/s", log="xy")
    points = {}
    for bench in (one(run, "matmul"), one(run, "quantized")):
        for found in bench["results"]:
            points.setdefault(found["dtype"], []).append((found["gflops"] / found["gbps"], found["gflops"]))
    peak, read = one(run, "matmul")["peak_gflops_bf16"], one(run, "matmul")["read_gbps"]
    intensities = [x for all_points in points.values() for x, _ in all_points]
    corner = min(max(peak / read, min(intensities)), max(intensities))
    roof = [min(intensities), corner, max(intensities)]
    axes.plot(roof, [min(peak, x * read) for x in roof], "--", color=figures.GREY, label="roof")
    for colour, (name, all_points) in zip(figures.COLOURS * 2, sorted(points.items())):
        axes.plot(*zip(*all_points), "o", markersize=4, color=colour, label=name)
    figures.legend(axes)
    return title, drawn


@value
def attention_shape(run):
    """Shape of the attention that is timed."""
    found = one(run, "attention")
    return f'{found["heads"]} heads of {found["head_dim"]}, {found["kv_heads"]} K/V heads, {found["cells"]} tokens'


@table
def attention(run):
    """Each K/V format and row count."""
    rows = []
    for found in one(run, "attention")["results"]:
        rows.append([found["cells_as"], found["rows"], f'{1e3 * found["seconds_median"]:.2f}',
                     f'{found["gflops"]:.1f}', percent(found["peak_share"]), ratio(found, "ratio_to_onednn")])
    return ["K/V", "rows", "ms", "GFLOP/s", "share of peak", "speedup over oneDNN"], rows


@value
def step_model(run):
    """Model of the whole steps."""
    return one(run, "setting")["model"]


def alone_seconds(run, steps, count):
    """Times of the matmuls and of the attention of all layers when timed alone, or None where those differ."""
    dense_bench, attended = one(run, "matmul"), one(run, "attention")
    if dense_bench["threads"] != steps["threads"] or attended["cells"] != steps["canvas"]:
        return None
    medians = {found["shape"]: found["seconds_median"] for found in dense_bench["results"]
               if found["rows"] == count and found["dtype"] == "bf16"}
    attentions = [found["seconds_median"] for found in attended["results"]
                  if found["rows"] == count and found["cells_as"] == "bf16"]
    if not attentions or not run.grid.matmuls or not set(run.grid.matmuls) <= set(medians):
        return None
    return (sum(times_each * medians[shape] for shape, times_each in run.grid.matmuls.items()),
            run.grid.layers * attentions[0])


@table
def steps(run):
    """Each number of threads and row count."""
    head = ["threads", "rows", "ms", "GFLOP/s", "matmuls and head", "attention", "other", "speedup",
            "matmuls / alone", "attention / alone"]
    rows, first = [], {}
    for row in run.of_kind("steps"):
        for found in row["results"]:
            seconds, count = found["seconds_median"], found["rows"]
            alone = alone_seconds(run, row, count)
            rows.append([row["threads"], count, f"{1e3 * seconds:.1f}", f'{found["gflops"]:.1f}',
                         percent((found["products"] + found["head"]) / seconds), percent(found["attention"] / seconds),
                         percent(found["other_share"]), times(first.setdefault(count, seconds) / seconds),
                         percent(alone[0] / found["products"]) if alone else "-",
                         percent(alone[1] / found["attention"]) if alone else "-"])
    return head, rows


@condition
def has_quantized_steps(run):
    """Whether whole steps were measured with quantized weights."""
    return bool(run.of_kind("quantized_steps"))


@table
def quantized_steps(run):
    """Each weight format and row count."""
    rows, first = [], {}
    for row in run.of_kind("quantized_steps"):
        flags = f'--weights {row["weights"]}' + (" --activations int8" if row["activations"] != "auto" else "")
        for found in row["results"]:
            seconds = found["seconds_median"]
            rows.append([code(flags), found["rows"], f"{1e3 * seconds:.1f}", f'{1e3 * found["products"]:.1f}',
                         f'{1e3 * found["head"]:.1f}', f'{first.setdefault(found["rows"], seconds) / seconds:.2f}'])
    return ["weights", "rows", "ms", "matmuls, ms", "head, ms", "speedup over bf16"], rows


@value
def loading(run):
    """Time and memory of loading."""
    found, mib = one(run, "load"), 1 << 20
    return (f'{code(one(run, "setting")["load"])}, with its files in the page cache: {found["seconds_median"]:.3f} s, '
            f'{found["gbps"]:.2f} GB/s; {found["weight_bytes"] / mib:.1f} MiB of weights, '
            f'{found["predicted_bytes"] / mib:.1f} predicted, peak while loading {found["peak_bytes"] / mib:.1f}')
