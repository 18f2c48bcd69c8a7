/// Is how a token request differs from RFC 6749's (`token_request`).
struct TokenRequestSection: Sendable {
    enum Encoding: String, Sendable, CaseIterable { case form, json }

    var encoding: Encoding?
    var omit: [String]?
    var rename: [String: String]?

    init() {}

    init(_ section: ConfigSection) {
        encoding = section.choice("encoding")
        omit = section.words("omit")
        let pairs = section.pairs("rename")
        rename = section.has("rename") ? Dictionary(pairs.map { ($0.name, $0.value.text) }, uniquingKeysWith: { $1 }) : nil
    }

    func over(_ base: TokenRequestSection) -> TokenRequestSection {
        var merged = self
        merged.encoding = encoding ?? base.encoding
        merged.omit = omit ?? base.omit
        merged.rename = rename ?? base.rename
        return merged
    }
}
