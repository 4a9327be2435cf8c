//! Signatures of requests to stores that speak S3: AWS Signature, version 4, for a GET of an object.
//!
//! ```text
//! request  ─► canonical text ─► SHA-256 ─► text to sign ─► HMAC with the key of day, region, service
//! ```

use std::time::Duration;

use ring::{digest, hmac};

/// Who asks.
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    /// Of keys that expire.
    pub(super) token: Option<String>,
}

/// A point of time, as signatures have it: `20130524T000000Z`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment(String);

impl Moment {
    /// So long after 1970.
    pub(super) fn of(unix: Duration) -> Self {
        let (days, second) = ((unix.as_secs() / 86_400) as i64, unix.as_secs() % 86_400);
        // Years that begin in March have the leap day at their end.
        let day = days + 719_468;
        let (era, of_era) = (day / 146_097, day % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        Self(format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"))
    }

    fn date(&self) -> &str {
        self.0.split('T').next().unwrap_or_default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(text: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, text).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// The fields of a request's head that sign it. `path` is escaped, and there is no query.
pub(super) fn authorization(
    keys: &Keys,
    region: &str,
    host: &str,
    path: &str,
    moment: Moment,
) -> Vec<(&'static str, String)> {
    let mut fields = vec![("x-amz-content-sha256", sha256(b"")), ("x-amz-date", moment.0.clone())];
    fields.extend(keys.token.as_ref().map(|token| ("x-amz-security-token", token.clone())));
    let signature = signature(keys, region, &moment, path, &[&[("host", host.to_owned())], &fields[..]].concat());
    fields.push(("Authorization", signature));
    fields
}

/// `fields` stand in the order of their names.
fn signature(keys: &Keys, region: &str, moment: &Moment, path: &str, fields: &[(&str, String)]) -> String {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let canonical = format!("GET\n{path}\n\n{lines}\n{names}\n{}", sha256(b""));
    let scope = format!("{}/{region}/s3/aws4_request", moment.date());
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", moment.0, sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{}", keys.secret).into_bytes();
    for part in scope.split('/') {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &to_sign));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and the object of the examples in Amazon's documentation of S3.
    #[test]
    fn a_signature_is_that_of_the_documentations_example() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let moment = Moment::of(Duration::from_secs(1_369_353_600));
        let fields = [
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("range", "bytes=0-9".to_owned()),
            ("x-amz-content-sha256", sha256(b"")),
            ("x-amz-date", "20130524T000000Z".to_owned()),
        ];
        let signed = signature(&keys, "us-east-1", &moment, "/test.txt", &fields);
        assert_eq!(
            signed,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn moments_are_dates_and_times() {
        for (unix, moment) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(Moment::of(Duration::from_secs(unix)).0, moment);
        }
    }
}
