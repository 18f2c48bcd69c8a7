import NIOHTTP1

extension ProviderAnswer {
    /// The time for which a document may be kept: `max-age`, between five minutes and a day, else an hour.
    var lifetime: Duration {
        for directive in headers[canonicalForm: "Cache-Control"] {
            let parts = directive.split(separator: "=")
            if parts.count == 2, parts[0].lowercased() == "max-age", let seconds = Int64(parts[1]) {
                return .seconds(min(max(seconds, 300), 86_400))
            }
        }
        return .seconds(3600)
    }
}
