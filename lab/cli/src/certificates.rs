//! `isles certificates`: an authority and what it signs, for a trial.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use secure_links::{AUTHORITY_FILE, Credentials, Day, credential_files};

use crate::arguments::{Flag, Given, whole};
use crate::bad_input::BadInput;
use crate::errors::Failure;

/// Days on which certificates count, unless the caller says how many.
const DAYS_DEFAULT: u64 = 365;
const DAYS_MAX: u64 = 36_500;

const EXAMPLES: &str = "Example:
  isles certificates keys --names command,instance-0,instance-1
                                       certificates = \"keys\" in the deployment file

DIR gets authority.pem, which every machine needs, and NAME.pem and NAME.key for each name, which only the machine of that name
needs: whoever has a key is believed to be of its name. They expire at the end of the last of --days days: no process begins with an
expired one, and isles deploy warns 30 days before. The authority's own key is forgotten, so that nobody signs another one; for more
names or days, make all of them anew.
Exit status: 0 done, 1 failed, 2 bad input.";

/// Flags of `isles certificates`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CertificatesArguments {
    /// Directory of the files; it has no authority so far
    #[arg(value_name = "DIR")]
    pub directory: String,
    /// Names, separated by commas: those of the deployment file [default:
    /// command,instance-0,instance-1]
    #[arg(long, value_name = "NAMES")]
    pub names: Option<String>,
    /// Days from today on which they count, 1 to 36500 [default: 365]
    #[arg(long, value_name = "N", value_parser = whole(1..=DAYS_MAX))]
    pub days: Option<Given<u64>>,
}

/// Makes them, and tells what it has made.
///
/// # Errors
/// Names that are none, or a directory that has an authority already or cannot be written.
pub fn run(arguments: &CertificatesArguments) -> Result<String, Failure> {
    let text = arguments.names.as_deref().unwrap_or("command,instance-0,instance-1");
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_name = |name: &str| {
        let known = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '.';
        !name.is_empty() && name.len() < 64 && !name.starts_with(['.', '-']) && name.chars().all(known)
    };
    for (number, name) in names.iter().enumerate() {
        let accepted = "letters, digits, hyphens and dots";
        if !is_name(name) || *name == "authority" {
            return Err(BadInput::value("--names", name, "no name for a certificate", accepted).into());
        }
        if names[..number].contains(name) {
            return Err(BadInput::value("--names", name, "given twice", "each name once").into());
        }
    }
    let directory = Path::new(&arguments.directory);
    let authority_path = directory.join(AUTHORITY_FILE);
    if authority_path.exists() {
        let problem = "has an authority already";
        return Err(BadInput::new(&arguments.directory, problem, "another directory").into());
    }
    let days = arguments.days.value_or(DAYS_DEFAULT)?;
    let last_day = Day::today().plus(days);
    fs::create_dir_all(directory).map_err(|error| Failure::at(directory, &error))?;
    let authority = authority(last_day).map_err(Failure::of)?;
    for name in &names {
        let [certificate, key] = credential_files(directory, name);
        let made = signed(&authority, name, last_day).map_err(Failure::of)?;
        write(&certificate, &made.0, 0o644)?;
        write(&key, &made.1, 0o600)?;
    }
    write(&authority_path, &authority.pem(), 0o644)?;
    for name in &names {
        Credentials::of_directory(directory, name).map_err(Failure::of)?;
    }
    let (directory, names) = (directory.display(), names.join(", "));
    Ok(format!("{directory}: {AUTHORITY_FILE} and certificates of {names}, which expire after {last_day}\n"))
}

/// An authority whose key is not kept.
fn authority(last_day: Day) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut parameters = CertificateParams::default();
    end_with(&mut parameters, last_day);
    parameters.distinguished_name.push(DnType::CommonName, "Isles, for a trial");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages.push(KeyUsagePurpose::KeyCertSign);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)
}

/// They expire with the last second of this day.
fn end_with(parameters: &mut CertificateParams, last_day: Day) {
    let (year, month, day) = last_day.date();
    parameters.not_after = rcgen::date_time_ymd(year, month, day) + Duration::from_secs(86_399);
}

/// A certificate of the authority for a name, and its key.
fn signed(
    authority: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    last_day: Day,
) -> Result<(String, String), rcgen::Error> {
    let mut parameters = CertificateParams::new([name.to_owned()])?;
    end_with(&mut parameters, last_day);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.key_usages.push(KeyUsagePurpose::DigitalSignature);
    // Of two instances either may connect to the other.
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok((parameters.signed_by(&key, authority)?.pem(), key.serialize_pem()))
}

/// A new file that these may read.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::at(path, &error))
}
