//! Certificates for tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A directory with an authority and its certificates.
pub struct Authority(pub PathBuf);

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Authority {
    /// Creates an authority with certificates for these names.
    pub fn new(names: &[&str]) -> Authority {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("isles-keys-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = Authority(std::env::temp_dir().join(name));
        std::fs::create_dir(&made.0).expect("a directory");
        let mut own = CertificateParams::default();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own =
            CertifiedIssuer::self_signed(own, KeyPair::generate().expect("a key")).expect("a certificate");
        let write = |file: &str, text: &str| std::fs::write(made.0.join(file), text).expect("a file");
        write("authority.pem", &own.pem());
        for name in names {
            let key = KeyPair::generate().expect("a key");
            let signed = CertificateParams::new([(*name).to_owned()]).expect("a name");
            write(&format!("{name}.pem"), &signed.signed_by(&key, &own).expect("a certificate").pem());
            write(&format!("{name}.key"), &key.serialize_pem());
        }
        made
    }
}
