import torch
from safetensors.torch import save_file


def projections(module, args, kwargs):
    """What nn.MultiheadAttention projects, which it has no modules for."""
    names = ["query", "key", "value"]
    inputs = [args[i] if i < len(args) else kwargs[n] for i, n in enumerate(names)]
    if module.in_proj_weight is None:
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    else:
        weights = module.in_proj_weight.chunk(3)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    steps = zip(["q_proj", "k_proj", "v_proj"], inputs, weights, biases)
    return {name: torch.nn.functional.linear(x, w, b) for name, x, w, b in steps}


def dump(model, path, *inputs, **named):
    """Saves the output of every module under its path, that of a second run under path#2."""
    steps, runs = {}, {}

    def keep(name, output):
        output = output[0] if isinstance(output, tuple) else output
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            runs[name] = runs.get(name, 0) + 1
            key = name if runs[name] == 1 else f"{name}#{runs[name]}"
            steps[key] = output.detach().clone().contiguous()

    def hook(name):
        def of(module, args, kwargs, output):
            if isinstance(module, torch.nn.MultiheadAttention):
                for part, projected in projections(module, args, kwargs).items():
                    keep(f"{name}.{part}", projected)
            keep(name, output)
        return of

    modules = [(name, module) for name, module in model.named_modules() if name]
    hooks = [m.register_forward_hook(hook(n), with_kwargs=True) for n, m in modules]
    with torch.no_grad():
        model.eval()(*inputs, **named)
    for one in hooks:
        one.remove()
    save_file(steps, path)
