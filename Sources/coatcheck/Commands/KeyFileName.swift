/// Which key file a configuration names.
enum KeyFileName {
    /// Reads that part of the configuration alone, nil where the keys are elsewhere.
    ///
    /// What else the configuration names need not be here.
    static func read(_ file: String) throws -> String? {
        let text: String
        do throws(ConfigurationFailure) { text = try Configuration.text(of: file) } catch {
            throw ManagementClient.fault("\(error)")
        }
        let context = ConfigContext(sources: .process(directory: Configuration.folder(of: file)))
        guard let root = context.compose(text) else { throw ManagementClient.fault("\(file) is not YAML") }
        let section = ConfigSection(root, path: "", pattern: "", line: 1, context: context).section("keys")
        guard section.has("file") else { return nil }
        return section.text("file", limit: 4096).map { context.sources.resolve($0) }
    }
}
