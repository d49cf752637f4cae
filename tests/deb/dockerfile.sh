#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# dockerfile.sh SOURCE: has a builder look at tools/Dockerfile, without building; 77 where there is none.
if ! docker buildx version >/dev/null 2>&1 || ! docker info >/dev/null 2>&1; then
	echo "SKIP: no builder of images here"
	exit 77
fi
exec docker build --check -f "$1/tools/Dockerfile" "$1"
