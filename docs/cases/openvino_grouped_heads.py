"""RuntimeError: OpenVINO does not convert attention whose heads share keys, of any size.

Found with OpenVINO 2026.4.1 and PyTorch 2.13.0 by
enginebench minify attention --set form=gqa --candidate openvino --fails error
"""

import torch
import openvino


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        scaled_dot_product_attention = torch.ops.aten.scaled_dot_product_attention.default(q, k, v, enable_gqa = True)
        return (scaled_dot_product_attention,)


torch.set_grad_enabled(False)
model = Model().eval()
inputs = (
    torch.ones((1, 4, 1, 1)),
    torch.ones((1, 2, 1, 1)),
    torch.ones((1, 2, 1, 1)),
)
converted = openvino.convert_model(torch.export.export(model, inputs))
compiled = openvino.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = [torch.from_numpy(y) for y in compiled([x.numpy() for x in inputs]).values()]
