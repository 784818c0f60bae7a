// SPDX-License-Identifier: MIT
// liboqs-python 0.16 asks every library it loads for this function, which liboqs 0.13 does not have
// yet. Its answer is in the algorithm's own description, so it is built in here.

OQS_API bool OQS_SIG_supports_ctx_str(const char *alg_name);

OQS_API bool OQS_SIG_supports_ctx_str(const char *alg_name) {
	OQS_SIG *sig = OQS_SIG_new(alg_name);
	const bool answer = sig != NULL && sig->sig_with_ctx_support;
	OQS_SIG_free(sig);
	return answer;
}
