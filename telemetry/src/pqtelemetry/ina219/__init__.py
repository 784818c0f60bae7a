"""The INA219 current and power monitor: register codec, driver, calibration, real bus, software model.

Figures and clauses are of the Texas Instruments data sheet SBOS448G (December 2015).
"""
