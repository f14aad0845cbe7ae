"""Export of graphs as ONNX models. These modules import optional packages, so ``onnx.export`` imports them."""
