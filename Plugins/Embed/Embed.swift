import Foundation
import PackagePlugin

/// Embeds files of this repository in a module, as texts that the program can serve (decision 96).
///
/// The build runs `scripts/embed` again when one of the files changes.
@main
struct Embed: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) throws -> [Command] {
        switch target.name {
        case "coatcheck":
            [command("Contract", of: [("text", "openapi.yaml")], for: context)]
        case "Sandbox":
            [command("PlaygroundPage", of: page.map { ($0, "Sources/Sandbox/Playground/Page/\($1)") }, for: context)]
        default: throw UnknownTarget(name: target.name)
        }
    }

    /// The parts of the playground's page.
    ///
    /// In `page.html`, `@TOKEN@` is replaced by the token of each start.
    private let page = [("html", "page.html"), ("css", "style.css"), ("script", "script.js"), ("icon", "icon.svg")]

    /// Writes an enumeration with one text for each file.
    private func command(_ type: String, of files: [(text: String, path: String)], for context: PluginContext)
        -> Command
    {
        let root = context.package.directoryURL
        let script = root.appending(path: "scripts/embed")
        let source = context.pluginWorkDirectoryURL.appending(path: "\(type).swift")
        let inputs = files.map { root.appending(path: $0.path) }
        let texts = zip(files, inputs).map { "\($0.text)=\($1.path(percentEncoded: false))" }
        return .buildCommand(
            displayName: "Embedding the files of \(type)", executable: script,
            arguments: [source.path(percentEncoded: false), type] + texts,
            inputFiles: [script] + inputs, outputFiles: [source])
    }
}

struct UnknownTarget: Error {
    let name: String
}
