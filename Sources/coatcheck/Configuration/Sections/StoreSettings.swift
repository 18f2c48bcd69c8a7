/// Where rows are kept (`store`).
struct StoreSettings: Sendable {
    /// The SQLite file, resolved.
    let path: String

    init?(_ section: ConfigSection) {
        guard section.has("url") || section.context.isCataloguing else {
            _ = section.text("url")
            path = section.context.sources.resolve("coatcheck.db")
            return
        }
        guard let url = section.text("url", limit: 4096) else { return nil }
        if url.hasPrefix("postgresql:") || url.hasPrefix("postgres:") {
            section.report(
                "url", "names PostgreSQL, which this version does not have: use `sqlite:` and a path, and one process")
            return nil
        }
        guard url.hasPrefix("sqlite:"), url.utf8.count > 7, !url.contains("?"), !url.contains("#") else {
            section.report("url", "has to be `sqlite:` and the path of a file")
            return nil
        }
        var path = String(url.dropFirst(7))
        while path.hasPrefix("//") { path.removeFirst() }
        path = section.context.sources.resolve(path)
        self.path = path
    }
}
