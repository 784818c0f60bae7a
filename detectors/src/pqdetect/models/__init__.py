"""Detector models: cards, ONNX graphs and how they are run, by the window or by the recording."""
