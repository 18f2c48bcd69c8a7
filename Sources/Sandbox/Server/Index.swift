import Hummingbird

/// The page at `/`.
enum Index {
    static func page(baseURL: String) -> Response {
        let rows = Catalogue.providers.map { provider in
            "<li>\(provider.name): \(provider.prefixes.map { (baseURL + "/" + $0).htmlEscaped }.joined(separator: ", "))</li>"
        }
        return .page(
            "coatcheck-sandbox", "<ul>\(rows.joined())</ul><p>Control: \((baseURL + "/_sandbox/").htmlEscaped)</p>")
    }
}
