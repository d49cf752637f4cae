# SPDX-License-Identifier: BSD-2-Clause
"""The softfabric command: main.py finds the verb, each verb is a file, out.py and places.py are what they share."""
