// SPDX-License-Identifier: BSD-2-Clause
// Lists of memory pieces: total length, copies at an offset, sub-ranges.
#include "base/copy.h"
#include "base/guard.h"
#include "kit/srx.h"

size_t kit_iov_len(const struct iovec *iov, size_t cnt)
{
	size_t len = 0;

	for (size_t i = 0; i < cnt; i++)
		if (__builtin_add_overflow(len, iov[i].iov_len, &len))
			return SIZE_MAX; /* no such memory: callers refuse it */
	return len;
}

size_t kit_iov_slice(const struct iovec *iov, size_t cnt, size_t off, size_t len, struct iovec *out, size_t out_max)
{
	size_t n = 0;

	for (size_t i = 0; i < cnt && len; i++) {
		size_t part = iov[i].iov_len;

		if (off >= part) {
			off -= part;
			continue;
		}
		if (n == out_max)
			return 0;
		part = MIN(part - off, len);
		out[n++] = (struct iovec){(char *)iov[i].iov_base + off, part};
		len -= part;
		off = 0;
	}
	return len ? 0 : n;
}

size_t kit_iov_copy_from(void *dst, size_t len, const struct iovec *iov, size_t cnt, size_t off)
{
	size_t done = 0;

	for (size_t i = 0; i < cnt && done < len; i++) {
		size_t part = iov[i].iov_len;

		if (off >= part) {
			off -= part;
			continue;
		}
		part = MIN(part - off, len - done);
		copy_bytes((char *)dst + done, (char *)iov[i].iov_base + off, part);
		done += part;
		off = 0;
	}
	return done;
}

size_t kit_iov_copy_to(const struct iovec *iov, size_t cnt, size_t off, const void *src, size_t len)
{
	size_t done = 0;

	for (size_t i = 0; i < cnt && done < len; i++) {
		size_t part = iov[i].iov_len;

		if (off >= part) {
			off -= part;
			continue;
		}
		part = MIN(part - off, len - done);
		if (unlikely(!guard_write((char *)iov[i].iov_base + off, (const char *)src + done, part)))
			break;
		done += part;
		off = 0;
	}
	return done;
}
