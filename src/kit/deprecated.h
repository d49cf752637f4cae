// SPDX-License-Identifier: BSD-2-Clause
// Names that libfabric 2.0 deprecated, whose use its headers answer with a warning that no option
// turns off, or dropped. Programs written for older releases send the values all the same, so the providers
// have to know them and the tests have to send them.
#ifndef SF_KIT_DEPRECATED_H
#define SF_KIT_DEPRECATED_H

#define KIT_MR_UNSPEC	 0	      /* FI_MR_UNSPEC */
#define KIT_MR_BASIC	 1	      /* FI_MR_BASIC */
#define KIT_MR_SCALABLE	 2	      /* FI_MR_SCALABLE */
#define KIT_LOCAL_MR	 (1ULL << 55) /* FI_LOCAL_MR, a mode bit */
#define KIT_ORDER_NONE	 0	      /* FI_ORDER_NONE */
#define KIT_ORDER_STRICT 0x1FF	      /* FI_ORDER_STRICT */
#define KIT_ORDER_DATA	 (1ULL << 16) /* FI_ORDER_DATA */
#define KIT_REG_MR	 (1ULL << 59) /* FI_REG_MR */

/* Names that 2.0 dropped and defines as 0, so that old programs compile. */
#define KIT_VARIABLE_MSG    (1ULL << 48)	  /* FI_VARIABLE_MSG, a capability */
#define KIT_RESTRICTED_COMP (1ULL << 53)	  /* FI_RESTRICTED_COMP, a mode bit */
#define KIT_EP_SOCK_STREAM  ((enum fi_ep_type)4) /* FI_EP_SOCK_STREAM */

#endif
