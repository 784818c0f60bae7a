//! Cipher suites: which algorithms of the registry go together, and how one is found.

use crate::registry::{
    Aead, Kem, KemKind, Sig, AEADS, KEMS, MATRIX_AEADS, MATRIX_KEMS, MATRIX_SIGS, SIGS,
};

/// A KEM, a signature scheme of the same level, and an AEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its KEM.
    pub kem: &'static Kem,
    /// Its signature scheme.
    pub sig: &'static Sig,
    /// Its AEAD.
    pub aead: &'static Aead,
}

impl Suite {
    /// `cs-{kem}-{aead}-{sig}` for one of the 72, `xs-…` beside them.
    #[must_use]
    pub fn id(&self) -> String {
        let prefix = if self.is_of_the_72() { "cs" } else { "xs" };
        let (kem, aead, sig) = (self.kem.token, self.aead.token, self.sig.token);
        format!("{prefix}-{kem}-{aead}-{sig}")
    }

    /// 1, 3 or 5.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.kem.level
    }

    /// Three bytes in Hello.
    #[must_use]
    pub fn code(&self) -> [u8; 3] {
        [self.kem.code, self.sig.code, self.aead.code]
    }

    /// Seconds that a handshake in this suite may take beyond 5.
    #[must_use]
    pub fn allowance_s(&self) -> u64 {
        self.kem.allowance_s + self.sig.allowance_s
    }

    /// One of the matrix of 72.
    #[must_use]
    pub fn is_of_the_72(&self) -> bool {
        KEMS[..MATRIX_KEMS].contains(self.kem)
            && SIGS[..MATRIX_SIGS].contains(self.sig)
            && AEADS[..MATRIX_AEADS].contains(self.aead)
    }

    fn is_defined(&self) -> bool {
        let is_slh = self.sig.token.starts_with("slhdsa");
        let fits = match self.kem.kind {
            KemKind::X25519 => self.sig.token == "ed25519",
            KemKind::Hybrid(_) => SIGS[..MATRIX_SIGS].contains(self.sig),
            // A second HQC beside the first, not a second set of extras.
            KemKind::HqcV5 => {
                SIGS[..MATRIX_SIGS].contains(self.sig) && AEADS[..MATRIX_AEADS].contains(self.aead)
            }
            KemKind::Oqs(_) => is_slh || SIGS[..MATRIX_SIGS].contains(self.sig),
        };
        fits && self.kem.level == self.sig.level
    }

    /// Every defined suite, the 72 first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut defined: Vec<Self> = Vec::new();
        for kem in &KEMS {
            for sig in &SIGS {
                for aead in &AEADS {
                    let suite = Self { kem, sig, aead };
                    if suite.is_defined() {
                        defined.push(suite);
                    }
                }
            }
        }
        defined.sort_by_key(|suite| !suite.is_of_the_72());
        defined
    }

    /// The suite of an id.
    #[must_use]
    pub fn by_id(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|suite| suite.id() == id)
    }

    /// The suite of a wire code.
    #[must_use]
    pub fn by_code(code: [u8; 3]) -> Option<Self> {
        let suite = Self {
            kem: KEMS.iter().find(|kem| kem.code == code[0])?,
            sig: SIGS.iter().find(|sig| sig.code == code[1])?,
            aead: AEADS.iter().find(|aead| aead.code == code[2])?,
        };
        suite.is_defined().then_some(suite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_matrix_has_72_and_codes_find_them_again() {
        let all = Suite::all();
        let matrix = all.iter().filter(|suite| suite.is_of_the_72()).count();
        assert_eq!(matrix, 72);
        for suite in all {
            assert_eq!(Suite::by_code(suite.code()), Some(suite));
            assert_eq!(Suite::by_id(&suite.id()), Some(suite));
        }
        assert_eq!(Suite::by_code([1, 2, 1]), None, "levels differ");
        assert_eq!(Suite::by_id("plain"), None);
    }

    #[test]
    fn names_and_codes_are_unique() {
        let all = Suite::all();
        let ids: HashSet<String> = all.iter().map(Suite::id).collect();
        let codes: HashSet<[u8; 3]> = all.iter().map(Suite::code).collect();
        assert_eq!((ids.len(), codes.len()), (all.len(), all.len()));
    }

    #[test]
    fn the_other_hqc_stands_beside_the_72_in_24_suites() {
        let of = |kind: fn(&KemKind) -> bool| {
            let all = Suite::all();
            let found = all.into_iter().filter(move |suite| kind(&suite.kem.kind));
            found.collect::<Vec<Suite>>()
        };
        let newer = of(|kind| *kind == KemKind::HqcV5);
        assert_eq!(newer.len(), 24);
        let older = of(|kind| matches!(kind, KemKind::Oqs(name) if name.starts_with("HQC")));
        let partners = |of: &[Suite]| -> HashSet<(u8, &str, &str)> {
            let parts = of
                .iter()
                .map(|one| (one.level(), one.aead.token, one.sig.token));
            parts.collect()
        };
        let older: Vec<Suite> = older.into_iter().filter(Suite::is_of_the_72).collect();
        assert_eq!(partners(&newer), partners(&older));
        for suite in newer {
            assert!(suite.id().starts_with("xs-hqc"), "{}", suite.id());
            assert!(suite.kem.provider().contains("hqc-kem"));
        }
    }
}
