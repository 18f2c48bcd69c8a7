/// The source of the key ring (`keys`).
enum KeySettings: Sendable {
    /// The path of a key file, which is read again after a change.
    case file(String)
    /// The text of an environment variable, which cannot change.
    case variable(name: String, text: String)

    /// Reads only the source.
    ///
    /// `KeyRingFile` reads the ring itself, when the vault is made and in `coatcheck check`.
    init?(_ section: ConfigSection) {
        let sources = section.context.sources
        if section.has("env") {
            let name = section.text("env", limit: 255)
            if section.has("file") {
                _ = section.text("file", limit: 4096)
                section.report("env", "stands beside `file`: the ring is in one place")
                return nil
            }
            guard let name else { return nil }
            guard let text = sources.environment(name) else {
                section.report("env", "names an environment variable that is not set\(ConfigSection.named(name))")
                return nil
            }
            self = .variable(name: name, text: text)
            return
        }
        guard let path = section.requiredText("file", limit: 4096) else { return nil }
        let file = sources.resolve(path)
        self = .file(file)
        let help = "; `coatcheck keys generate --file` makes one"
        if sources.readFile(file, for: "file", of: section, help) != nil, sources.isOpenToOthers(file) {
            section.report(
                "file", "names a file that others may read; its mode has to be 0600, or 0640 with this process's group")
        }
    }

    /// The source, in words for a sentence.
    var place: String {
        switch self {
        case .file(let path): path
        case .variable(let name, _): "the variable \(name)"
        }
    }
}
