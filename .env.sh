T=/work/dispatch_tree
export PYTHONPATH=$T/plugins:$T/core:$T/frontend:$T/plugin_cpu:$T/plugin_opencl:$T/plugin_cuda:$T/conformance
export PATH=/work/main/.venv/bin:$PATH
