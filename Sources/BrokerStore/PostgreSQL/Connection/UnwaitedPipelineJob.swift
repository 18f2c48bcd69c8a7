/// A write whose caller does not wait for the result.
final class UnwaitedPipelineJob: PipelineJob {
    let statements: [BoundStatement]
    let patience: Duration

    init(_ statement: BoundStatement, patience: Duration) {
        statements = [statement]
        self.patience = patience
    }

    var isWrite: Bool { true }
    func keep(_ rows: ResultRows) {}
    func finish(_ failure: JobFailure?) {}
}
