import Broker

extension ConfigSection {
    /// Reads a JSON pointer (RFC 6901).
    func pointer(_ key: String) -> String? {
        guard let text = text(key, limit: 256) else { return nil }
        if text.hasPrefix("/") { return text }
        report(key, "has to be a JSON pointer, such as `/data/id`")
        return nil
    }

    /// Reads a private key in PEM from the file that a key names.
    func privateKeyFile(_ key: String) -> Secret? {
        guard let file = readableFile(key) else { return nil }
        let text = String(decoding: file.bytes, as: UTF8.self)
        guard text.contains("-----BEGIN"), text.contains("PRIVATE KEY-----") else {
            report(key, "names a file without a private key in PEM")
            return nil
        }
        if context.sources.isOpenToOthers(file.path) {
            warn(key, "names a file that others may read; its mode should be 0600")
        }
        return Secret(text)
    }

    /// Reads redirect URIs; reports a fault if there is none.
    func redirectURIs(_ key: String) -> [RedirectURI] {
        let found = scalars(key).compactMap { redirectURI($0, of: key) }
        require(key)
        if has(key), node(key) != nil, scalars(key).isEmpty { report(key, "has to hold at least one redirect URI") }
        for (index, uri) in found.enumerated() {
            guard let same = found[..<index].first(where: { $0.registration == uri.registration }) else { continue }
            let isPlain = same.text == uri.text
            report(
                key,
                isPlain
                    ? "holds a redirect URI twice"
                    : "holds a redirect URI twice: `\(same.text)` and `\(uri.text)` are one: ignored are case in scheme and host, the "
                        + "scheme's own port, an empty path of a web address and the port of a loopback address"
            )
        }
        return found
    }

    /// Reads one optional redirect URI.
    func redirectURI(_ key: String) -> RedirectURI? { scalar(key).flatMap { redirectURI($0, of: key) } }

    private func redirectURI(_ scalar: ConfigScalar, of key: String) -> RedirectURI? {
        guard let uri = RedirectURI(registered: scalar.text), !RedirectScheme.forbidden.contains(uri.scheme) else {
            context.report(
                "has to hold redirect URIs: https, http on loopback, or the app's own scheme; no fragment or "
                    + "user name", path: child(key), line: scalar.line)
            return nil
        }
        if uri.scheme == "http", !uri.isLoopback {
            context.report(
                "holds plain http, which is for loopback addresses only", path: child(key), line: scalar.line)
            return nil
        }
        if uri.text.contains("*") {
            context.report(
                "holds a `*`, which is no wildcard: redirect URIs are compared byte for byte, here and at providers",
                path: child(key), line: scalar.line, severity: .warning)
        }
        return uri
    }
}
