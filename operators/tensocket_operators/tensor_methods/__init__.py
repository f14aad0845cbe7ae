"""Methods of tensors that are not operators."""
