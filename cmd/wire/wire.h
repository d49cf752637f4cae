// SPDX-License-Identifier: BSD-2-Clause
// How the layers tell softfabric-wire what their packets look like: fields by offsetof() and sizeof(), lengths from the
// packet tables.
#ifndef SF_CMD_WIRE_H
#define SF_CMD_WIRE_H

#include "base/base.h"
#include "base/bits.h"
#include "base/le.h"

/*
 * Theory of operation
 *
 * This program is linked with the packet tables of the providers and prints one description of all layouts as JSON,
 * from which the dissectors of Wireshark and `softfabric decode` work. It cannot drift from the code: where a field is
 * and how long it is comes from the struct, what follows a header from its table's row; and it ends with an error,
 * which ends the build, if a bit of a header has no field, or two, or if a rule names a field that its packet lacks.
 *
 * A *protocol* has a head that all its packets begin with, and up to two fields of it that choose the packet. A
 * *packet* has a header of fixed length (head included), then parts, each only *when* its fields say so and as often as
 * they say, then payload.
 */

/* A set of named values. */
struct wire_names {
	const char *id;
	const char *(*name)(unsigned value); /* NULL: no such value */
	unsigned first, last;
};

/* Forms: 'l' and 'b' little- and big-endian number, 'y' bytes. Show: 'd' decimal, 'x' hexadecimal, 'y' bytes, '-' not
 * at all. */
struct wire_field {
	const char *name; /* NULL ends a list */
	uint16_t off, size;
	char form, show;
	uint64_t mask; /* 0: all bits */
	const struct wire_names *names;
};

#define WIRE_FORM(x_)                                                                                                  \
	_Generic((x_), be16_t                                                                                          \
		 : 'b', be32_t                                                                                         \
		 : 'b', le16_t                                                                                         \
		 : 'l', le32_t                                                                                         \
		 : 'l', le64_t                                                                                         \
		 : 'l', uint8_t                                                                                        \
		 : 'l', uint32_t                                                                                       \
		 : 'l', uint64_t                                                                                       \
		 : 'l', default                                                                                        \
		 : 'y')
#define WIRE_SIZE(s_, m_) sizeof(((struct s_ *)0)->m_)
#define WIRE_AT(s_, m_, name_, show_, ...)                                                                             \
	{                                                                                                              \
		.name = (name_), .off = offsetof(struct s_, m_), .size = WIRE_SIZE(s_, m_),                            \
		.form = WIRE_FORM(((struct s_ *)0)->m_), .show = (show_), __VA_ARGS__                                  \
	}
#define DEC(s_, m_, name_, ...) WIRE_AT(s_, m_, name_, 'd', __VA_ARGS__)
#define HEX(s_, m_, name_, ...) WIRE_AT(s_, m_, name_, 'x', __VA_ARGS__)
#define RSVD(s_, m_)		WIRE_AT(s_, m_, "rsvd", '-')
#define BITS(mask_)		.mask = (mask_)
#define NAMES(names_)		.names = &(names_)
#define END                                                                                                            \
	{                                                                                                              \
		.name = NULL                                                                                           \
	}

/* @field is in lo..hi, or equals the field @same. */
struct wire_when {
	const char *field;
	uint64_t lo, hi;
	const char *same;
};
#define WHEN_MAX 3
#define IS(field_, v_)                                                                                                 \
	{                                                                                                              \
		(field_), (v_), (v_), NULL                                                                             \
	}
#define IN(field_, lo_, hi_)                                                                                           \
	{                                                                                                              \
		(field_), (lo_), (hi_), NULL                                                                           \
	}
#define SAME(field_, other_)                                                                                           \
	{                                                                                                              \
		(field_), 0, 0, (other_)                                                                               \
	}

/* Fields that a packet may have behind its header, or, with @at, another meaning of bytes in it. */
struct wire_part {
	const struct wire_field *fields;
	uint16_t size; /* bytes; 0 ends a list, unless @at */
	bool is_over;  /* the fields' offsets are in the header */
	struct wire_when when[WHEN_MAX];
	const char *times; /* field that says how often, less @less; NULL: once */
	int less;
	bool to_end;	       /* as often as there is room */
	const char *len_field; /* the part is this long, plus @len_plus */
	int len_plus;
};

/* Which fi_ operation a packet is of; the first that fits. */
struct wire_op {
	const char *op; /* NULL ends a list */
	struct wire_when when[WHEN_MAX];
};

/*
 * What a packet is to its message. @how: 'w' it is all of it; 'b' it begins it; 'j' it goes on with it; 'm' either; 'e'
 * it says that it is over.
 * @keys: names of the message, by which this packet, unless it begins it, and later ones find it: "+s:FIELD" or
 * "+s:FIELD,FIELD", + in this direction, - in the other one, a letter, values. @total: field with its length; NULL:
 * this packet's payload; "": not known. @mem: fields key, address, length of memory shown to the peer, by spaces: bulk
 * copies of it belong to the message.
 */
struct wire_msg {
	char how; /* 0: not part of any */
	const char *keys, *total, *mem;
	const char *off, *end; /* it is the last packet when field @off plus payload is field @end */
	const char *
		find; /* fields key and address of memory that has been shown: the message is that of this memory */
	const struct wire_op *ops;
	struct wire_when when[WHEN_MAX];
};
#define MSG_MAX 3

struct wire_packet {
	char key[16]; /* values of the selecting fields, by '.' */
	const char *name;
	uint32_t len; /* header, bytes */
	const struct wire_field *fields;
	const struct wire_part *parts;
	uint32_t payload_min, payload_max;
	const char *payload_len;      /* field that must be equal to the payload's length */
	const char *next;	      /* protocol of the payload */
	bool is_unnumbered;	      /* not among those that the protocol numbers */
	struct wire_msg msg[MSG_MAX]; /* the first that fits */
};

struct wire_proto {
	const char *id, *title;
	const struct wire_field *head;
	uint32_t head_len;
	const char *select, *select2;
	const char *number; /* fields by which a packet and its repetitions are known, by spaces; NULL: the layer below
			       repeats */
	bool is_stream;	    /* the payload of some packets may be anything */
};

void wire_proto_begin(const struct wire_proto *p);
void wire_packet(const struct wire_packet *p);
void wire_proto_end(void);
/** wire_layout() - A layout of its own, all of whose bits must be there. */
void wire_layout(const char *id, const struct wire_field *fields, uint32_t size);
void wire_number(const char *name, uint64_t value);
/** wire_stop() - The description is wrong: says why, and the build ends. */
_Noreturn void wire_stop(const char *where, const char *what, const char *which);

void wire_link(void);
void wire_efa(void);
void wire_cxi(void);
void wire_opx(void);

#endif
