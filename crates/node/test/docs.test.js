'use strict'

// The examples of docs/NODE.md, as they stand there: each gives what stands below it.

const test = require('node:test')
const assert = require('node:assert/strict')
const { spawnSync } = require('node:child_process')
const { mkdirSync, readFileSync, symlinkSync } = require('node:fs')
const path = require('node:path')
const { scratch } = require('./scratch')

const page = readFileSync(path.join(__dirname, '..', '..', '..', 'docs', 'NODE.md'), 'utf8')
const examples = [...page.matchAll(/```js\n([^]*?)```\n(?:\n```text\n([^]*?)```\n)?/g)]

test('docs/NODE.md has examples, and all but the last say what they give', () => {
  assert.equal(examples.length, 5)
  assert.equal(examples.filter(([, , output]) => output !== undefined).length, 4)
})

examples.forEach(([, program, output], place) => {
  test(`example ${place + 1} of docs/NODE.md`, (t) => {
    const dir = scratch(t)
    mkdirSync(path.join(dir, 'node_modules'))
    symlinkSync(path.join(__dirname, '..'), path.join(dir, 'node_modules', 'colibri-db'))
    const environment = { ...process.env }
    // One of them is a test, which this test is not told of.
    delete environment.NODE_TEST_CONTEXT
    const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', program], { cwd: dir, encoding: 'utf8', env: environment })
    assert.equal(status, 0, stderr + stdout)
    if (output !== undefined) assert.equal(stdout, output)
    else assert.match(stdout, /pass 1/)
  })
})
