"""Calls that are refused for what they are, with the reason that a user can act upon."""

from engine.exporter.handlers import refused

refused(
    "its result depends on the values of tensors, and a program's shapes and branches are fixed",
    *("item", "_local_scalar_dense", "nonzero", "masked_select", "where", "unique_dim", "_unique2", "bincount"),
)
refused(
    "it draws random numbers (dropout: call model.eval())",
    *("bernoulli", "bernoulli.p", "rand", "randn", "randint", "randint.low", "rand_like", "randn_like", "randperm"),
    *("multinomial", "native_dropout", "normal.Tensor_Tensor", "normal_functional"),
)
refused("a batch norm in training mode moves its statistics (call model.eval())", "_native_batch_norm_legit_functional")
refused("it reads the bits of one element type as another", "view.dtype")
refused("it says where elements lie in memory, which is the planner's to choose", "as_strided", "as_strided_scatter")
