//! Who may ask: a page that this program has opened, and nobody else on the machine or behind a web page.
//!
//! - The server listens on the loopback address only.
//! - Every path begins with a random token, so that other users and other pages cannot guess it.
//! - `Host` must be our own address: a name that someone points at 127.0.0.1 is refused.
//! - `Origin` must be our own where something is asked to be computed or written.
//! - The content policy lets the page load nothing but itself.

use crate::http::{Head, Refusal};

/// The address of a page, and who may ask for it.
#[derive(Clone, Debug)]
pub struct Guard {
    token: String,
    hosts: [String; 2],
    policy: String,
}

impl Guard {
    /// For a server at a port, with a new token; `framed` allows pages of this machine (notebooks) to show it inside of theirs.
    pub fn new(port: u16, framed: bool) -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)?;
        let token = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let ancestors =
            if framed { "http://localhost:* http://127.0.0.1:* vscode-webview:" } else { "'none'" };
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
        );
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Ok(Self { token, hosts, policy })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://{}/{}/", self.hosts[0], self.token)
    }

    /// The content policy of every answer.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The path below the token, or why the request is refused.
    pub fn admit<'a>(&self, head: &'a Head) -> Result<&'a str, Refusal> {
        if !head.host.as_ref().is_some_and(|host| self.hosts.contains(host)) {
            return Err(Refusal(403, "this page is for this machine only"));
        }
        let ours = |origin: &String| {
            origin.strip_prefix("http://").is_some_and(|host| self.hosts.iter().any(|h| h == host))
        };
        let (wrong, none) = (head.origin.as_ref().is_some_and(|o| !ours(o)), head.origin.is_none());
        if wrong || (none && head.method != "GET") {
            return Err(Refusal(403, "other pages may not ask this one"));
        }
        let path = head.path.strip_prefix('/').unwrap_or_default();
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        // Every byte is looked at, so that time tells nothing.
        let same = token.len() == self.token.len()
            && token.bytes().zip(self.token.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        if same { Ok(rest) } else { Err(Refusal(404, "there is nothing here")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_page_may_ask() {
        let guard = Guard::new(8123, false).unwrap();
        let path =
            guard.address().trim_start_matches("http://127.0.0.1:8123").to_owned() + "api/run";
        let good = Head {
            method: "POST".into(),
            path,
            host: Some("127.0.0.1:8123".into()),
            origin: Some("http://127.0.0.1:8123".into()),
            ..Head::default()
        };
        assert_eq!(guard.admit(&good), Ok("api/run"));
        let refused = |change: &dyn Fn(&mut Head)| {
            let mut head = good.clone();
            change(&mut head);
            guard.admit(&head).unwrap_err().0
        };
        assert_eq!(refused(&|h| h.host = Some("evil.example:8123".into())), 403);
        assert_eq!(refused(&|h| h.host = None), 403);
        assert_eq!(refused(&|h| h.origin = Some("http://evil.example".into())), 403);
        assert_eq!(refused(&|h| h.origin = Some("https://127.0.0.1:8123".into())), 403);
        assert_eq!(refused(&|h| h.origin = None), 403);
        assert_eq!(refused(&|h| h.path = "/api/run".into()), 404);
        assert_eq!(refused(&|h| h.path = format!("/{}/api", "0".repeat(32))), 404);
        let other = Guard::new(8123, false).unwrap();
        assert_ne!(guard.address(), other.address());
    }
}
