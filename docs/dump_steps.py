import torch
from safetensors.torch import save_file


def dump(model, path, *inputs, **named):
    """Saves the output of every module under its path, that of a second run under path#2."""
    steps, runs = {}, {}

    def hook(name):
        def keep(module, args, output):
            output = output[0] if isinstance(output, tuple) else output
            if isinstance(output, torch.Tensor) and output.is_floating_point():
                runs[name] = runs.get(name, 0) + 1
                key = name if runs[name] == 1 else f"{name}#{runs[name]}"
                steps[key] = output.detach().clone().contiguous()
        return keep

    hooks = [m.register_forward_hook(hook(n)) for n, m in model.named_modules() if n]
    with torch.no_grad():
        model.eval()(*inputs, **named)
    for one in hooks:
        one.remove()
    save_file(steps, path)
