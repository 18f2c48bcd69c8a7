/// Where the key ring lies (`keys`).
struct KeySettings: Sendable {
    /// The key file, resolved.
    ///
    /// Whether it can be read is found when the vault is made, and by `coatcheck check`.
    let file: String

    init?(_ section: ConfigSection) {
        guard let path = section.requiredText("file", limit: 4096) else { return nil }
        file = section.context.sources.resolve(path)
        if section.context.sources.readFile(file) == nil {
            section.report("file", "names a file that cannot be read; `coatcheck keys generate --file` makes one")
        } else if section.context.sources.isOpenToOthers(file) {
            section.report("file", "names a file that others may read; its mode has to be 0600")
        }
    }
}
