/// Says of what a file asks for by a standard's word that it is not offered: mutual TLS, DPoP and JARM.
enum NotOffered {
    private static let words = [
        "tls_client_auth": "mutual TLS (RFC 8705)", "self_signed_tls_client_auth": "mutual TLS (RFC 8705)",
        "jwt": "signed answers (JARM)", "query.jwt": "signed answers (JARM)", "fragment.jwt": "signed answers (JARM)",
        "form_post.jwt": "signed answers (JARM)", "dpop": "DPoP (RFC 9449)",
    ]

    static func check(_ section: ConfigSection) {
        for key in ["auth", "response_mode"] where section.has(key) {
            guard let scalar = section.scalar(key), let name = words[scalar.text.lowercased()] else { continue }
            section.report(key, "asks for \(name), which is not offered")
        }
    }

    /// Checks the words of a list in the same way.
    static func check(_ section: ConfigSection, list key: String) {
        for scalar in section.scalars(key) {
            guard let name = words[scalar.text.lowercased()] else { continue }
            section.report(key, "asks for \(name), which is not offered")
        }
    }
}
